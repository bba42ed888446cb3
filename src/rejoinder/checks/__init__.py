"""Checks: what is asked of a reply, one file a family, behind one protocol."""

from rejoinder.checks.base import CheckFault, Context, Post, Reach, Work
from rejoinder.checks.grading import asks_nobody, grade, grade_plain, reach_of

__all__ = ["CheckFault", "Context", "Post", "Reach", "Work", "asks_nobody", "grade", "grade_plain", "reach_of"]

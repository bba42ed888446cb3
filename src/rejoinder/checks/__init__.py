"""Checks: what is asked of a reply, one file a family, behind one protocol."""

from rejoinder.checks.base import Context, Reach
from rejoinder.checks.grading import grade, grade_plain, reach_of, unavailable

__all__ = ["Context", "Reach", "grade", "grade_plain", "reach_of", "unavailable"]

"""Checks: what is asked of a reply, one file per family. The families that nearly every suite needs are imported here,
so that their functions are registered; the others are imported when a suite has such a check."""

from rejoinder.checks import groups as groups
from rejoinder.checks import text as text

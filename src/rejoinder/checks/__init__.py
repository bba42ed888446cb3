"""Checks: what is asked of a reply, one file a family. The families that nearly every suite needs are imported here, so
that their functions are registered; the others are imported when a suite has such a check."""

from rejoinder.checks import groups as groups
from rejoinder.checks import text as text
from rejoinder.checks.base import CheckFault as CheckFault
from rejoinder.checks.base import Context as Context
from rejoinder.checks.base import Post as Post
from rejoinder.checks.base import Work as Work
from rejoinder.checks.registry import grade as grade
from rejoinder.checks.registry import grade_plain as grade_plain
from rejoinder.checks.registry import grade_words as grade_words
from rejoinder.checks.registry import is_plain as is_plain

"""Checks: what is asked of a reply, one file a family. A family that asks nothing is imported here, so that its
functions are registered; the others are imported when a suite has such a check."""

from rejoinder.checks import groups as groups
from rejoinder.checks import json_checks as json_checks
from rejoinder.checks import text as text
from rejoinder.checks import tools as tools
from rejoinder.checks.base import CheckFault as CheckFault
from rejoinder.checks.base import Context as Context
from rejoinder.checks.base import Post as Post
from rejoinder.checks.base import Work as Work
from rejoinder.checks.registry import grade as grade
from rejoinder.checks.registry import grade_plain as grade_plain
from rejoinder.checks.registry import is_plain as is_plain

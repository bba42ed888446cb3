"""Checks: what is asked of a reply, one file per family. The families that nearly every suite needs are imported here,
so that their functions are registered; the others are imported when a suite has such a check.

For authors of suites in Python, each check is also a function of this package: `checks.contains("voucher")`. They are
in `rejoinder.authoring.checks`, and are imported when the first one is used.
"""

from typing import TYPE_CHECKING

from rejoinder.checks import groups as groups
from rejoinder.checks import text as text
from rejoinder.model import CHECKS
from rejoinder.model.plans import OVER_TIME

if TYPE_CHECKING:
    from rejoinder.authoring.checks import *  # noqa: F403


if not TYPE_CHECKING:  # to type checkers, a name that is not above is a mistake

    def __getattr__(name):
        if name.removesuffix("_") not in {*CHECKS, *OVER_TIME}:
            raise AttributeError(f"module 'rejoinder.checks' has no attribute {name!r}")
        from rejoinder.authoring import checks

        value = getattr(checks, name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    from rejoinder.authoring import checks

    return sorted(checks.__all__)

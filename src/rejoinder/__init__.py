"""rejoinder tests language models and agents in conversation.

Every public name is imported on first use, so that `import rejoinder` is fast.
"""

from __future__ import annotations

from rejoinder._version import __version__ as __version__

TYPE_CHECKING = False  # `typing` itself would be half the cost of this import
if TYPE_CHECKING:
    from rejoinder import checks as checks
    from rejoinder import testing as testing
    from rejoinder.api import afork as afork
    from rejoinder.api import agrade as agrade
    from rejoinder.api import amerge as amerge
    from rejoinder.api import areplay as areplay
    from rejoinder.api import aresume as aresume
    from rejoinder.api import arun as arun
    from rejoinder.api import bless as bless
    from rejoinder.api import compare as compare
    from rejoinder.api import compare_targets as compare_targets
    from rejoinder.api import compare_variants as compare_variants
    from rejoinder.api import estimate as estimate
    from rejoinder.api import export as export
    from rejoinder.api import failed_of as failed_of
    from rejoinder.api import fork as fork
    from rejoinder.api import gate as gate
    from rejoinder.api import grade as grade
    from rejoinder.api import merge as merge
    from rejoinder.api import next_steps as next_steps
    from rejoinder.api import replay as replay
    from rejoinder.api import resume as resume
    from rejoinder.api import run as run
    from rejoinder.api import show as show
    from rejoinder.authoring.keys import Case as Case
    from rejoinder.authoring.keys import FollowUp as FollowUp
    from rejoinder.authoring.keys import Turn as Turn
    from rejoinder.checks.plugins import check as check
    from rejoinder.client import RequestRefused as RequestRefused
    from rejoinder.client import RunChoices as RunChoices
    from rejoinder.client import RunState as RunState
    from rejoinder.client import Server as Server
    from rejoinder.client import ServerError as ServerError
    from rejoinder.client import ServerUnreachable as ServerUnreachable
    from rejoinder.engine.observer import Progress as Progress
    from rejoinder.errors import RejoinderError as RejoinderError
    from rejoinder.errors import SuiteError as SuiteError
    from rejoinder.errors import UsageError as UsageError
    from rejoinder.formatting.judge import format_judge_prompts as format_judge_prompts
    from rejoinder.formatting.prompt import format_case as format_case
    from rejoinder.formatting.prompt import to_toon as to_toon
    from rejoinder.library.explaining import explain as explain
    from rejoinder.library.report import RunReport as RunReport
    from rejoinder.library.rows import CaseVerdict as CaseVerdict
    from rejoinder.library.suites import Suite as Suite
    from rejoinder.library.suites import load as load
    from rejoinder.library.suites import loads as loads
    from rejoinder.library.suites import validate as validate
    from rejoinder.model import ChatMessage as ChatMessage
    from rejoinder.model import CheckResult as CheckResult
    from rejoinder.model import Evidence as Evidence
    from rejoinder.model import Opinion as Opinion
    from rejoinder.model import Reply as Reply
    from rejoinder.model import Request as Request
    from rejoinder.model import Result as Result
    from rejoinder.model import TurnResult as TurnResult
    from rejoinder.model.comparisons import RunComparison as RunComparison
    from rejoinder.model.estimates import RunBounds as RunBounds
    from rejoinder.model.figures import GateResult as GateResult
    from rejoinder.model.forks import Fork as Fork
    from rejoinder.runs.options import Answers as Answers
    from rejoinder.runs.options import Confirm as Confirm
    from rejoinder.runs.options import Limits as Limits
    from rejoinder.runs.options import Pace as Pace
    from rejoinder.runs.options import Rounds as Rounds
    from rejoinder.runs.options import RunOptions as RunOptions
    from rejoinder.runs.options import Selection as Selection
    from rejoinder.runs.options import Trust as Trust
    from rejoinder.views.actions import Action as Action

_NAMES = {
    "rejoinder.api": (
        "afork agrade amerge areplay aresume arun bless compare compare_targets compare_variants estimate export"
        " failed_of fork gate grade merge next_steps replay resume run show"
    ),
    "rejoinder.authoring.keys": "Case FollowUp Turn",
    "rejoinder.checks.plugins": "check",
    "rejoinder.client": "RequestRefused RunChoices RunState Server ServerError ServerUnreachable",
    "rejoinder.engine.observer": "Progress",
    "rejoinder.model.forks": "Fork",
    "rejoinder.runs.options": "Answers Confirm Limits Pace Rounds RunOptions Selection Trust",
    "rejoinder.library.explaining": "explain",
    "rejoinder.library.report": "RunReport",
    "rejoinder.library.rows": "CaseVerdict",
    "rejoinder.errors": "RejoinderError SuiteError UsageError",
    "rejoinder.formatting.judge": "format_judge_prompts",
    "rejoinder.formatting.prompt": "format_case to_toon",
    "rejoinder.library.suites": "Suite load loads validate",
    "rejoinder.model": "ChatMessage CheckResult Evidence Opinion Reply Request Result TurnResult",
    "rejoinder.model.comparisons": "RunComparison",
    "rejoinder.model.estimates": "RunBounds",
    "rejoinder.model.figures": "GateResult",
    "rejoinder.views.actions": "Action",
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}
_MODULES = ("checks", "testing")
__all__ = ["__version__", *_HOMES, *_MODULES]  # noqa: PLE0604  # pyright: ignore[reportUnsupportedDunderAll] - all are names


if not TYPE_CHECKING:  # to type checkers, a name that is not above is a mistake

    def __getattr__(name):
        if name not in _HOMES and name not in _MODULES:
            raise AttributeError(f"module 'rejoinder' has no attribute {name!r}")
        import importlib

        if name in _MODULES:
            return importlib.import_module(f"rejoinder.{name}")
        value = getattr(importlib.import_module(_HOMES[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

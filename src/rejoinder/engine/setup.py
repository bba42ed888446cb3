"""What a run needs before its first call: the plan surveyed, targets opened, secrets known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from msgspec import structs

from rejoinder.engine.known_secrets import known_secrets
from rejoinder.engine.open_tools import open_tools
from rejoinder.engine.plan import Survey, pairs, survey_plan
from rejoinder.engine.targets import OpenTarget, OpenTargets, refuse_unbounded
from rejoinder.errors import RejoinderError, UsageError
from rejoinder.model import Reply, Suite, Target
from rejoinder.model.tools import is_conversations_own
from rejoinder.providers.settings import model_of
from rejoinder.runs.options import RunOptions, settled
from rejoinder.runs.secrets import Mask
from rejoinder.tools.opened import OpenTools
from rejoinder.user_code.functions import FunctionFault
from rejoinder.validation.roles import other_targets, tools_of


class Setup:
    """`makes_calls`: False to read a run, where recorded answers are all there is."""

    def __init__(self, suites: list[Suite], options: RunOptions, *, makes_calls: bool = True) -> None:
        self.suites = suites
        self.options = settled(options, suites)
        self.opens_targets = makes_calls and self.options.answers.opens_targets
        """False if no target can be called, so that none is opened."""
        self.survey: Survey = survey_plan(suites, self.options)
        self.targets = OpenTargets(self.options)
        self.tools = OpenTools()
        self.closed: dict[tuple[str, str], RejoinderError] = {}
        """Why targets could not be opened that may not be needed, by suite and name."""
        try:
            if makes_calls:
                self.targets.lend_environment(self.survey.coded)
            if self.opens_targets:
                self._open_targets()
            if self.opens_targets and self.options.answers.asks_candidates:
                self.tools = open_tools(self.survey.tools, self.targets, self.options.trust)
        except RejoinderError as error:
            _add_traceback(error, self.targets.collect_secrets(suites))
            self.targets.loan.close()
            raise
        secrets = self.targets.collect_secrets(suites)
        if not (self.opens_targets and self.options.answers.asks_candidates):
            secrets = {**known_secrets(suites, self.survey.targets, self.survey.tools), **secrets}
        self.mask = Mask(secrets)
        self.targets.exchange.reveal = self.mask.reveal_text
        self.targets.exchange.learned = self.mask.learn

    def _open_targets(self) -> None:
        """For new grades candidates are not called, and judges only where an answer is missing: there a key that is not
        set is no error yet."""
        if self.options.answers.asks_candidates:
            called = [self.targets.open(suite, target) for suite, target in self.survey.targets]
            self.options = self._fork_of_kept()
        else:
            called = [opened for suite, target in self.survey.targets if (opened := self._try_to_open(suite, target))]
            besides = {
                (pair.suite.path, target.name)
                for pair in pairs(self.suites, self.options.selection)
                for target in other_targets(pair)
            }
            called = [opened for opened in called if (opened.suite.path, opened.target.name) in besides]
            self.closed = {place: error for place, error in self.closed.items() if place in besides}
        for opened in called:
            opened.load_prices()
        if self.options.limits.has_budget:
            in_usd = self.options.limits.budget_usd is not None
            refuse_unbounded(called, self.survey.embedders, in_usd=in_usd)

    def _fork_of_kept(self) -> RunOptions:
        """The options of a fork with the targets that are told again what was said: a new session of a target that
        keeps conversations itself knows nothing of it."""
        fork = self.options.answers.fork
        if fork is None or fork.turn == 1:
            return self.options
        said_again: dict[str, None] = {}
        for pair in pairs(self.suites, self.options.selection):
            for tool in filter(is_conversations_own, tools_of(pair)):
                raise UsageError(
                    f"`{tool.name}` keeps what was done in the conversation, so a fork cannot begin in its middle",
                    "Fork it at turn 1, or let all conversations share the server: `scope: run`.",
                )
            opened = self.targets.find(pair.suite, pair.target)
            if opened is None or opened.keeper is None:
                continue
            if fork.of and fork.of != pair.target.name:
                raise UsageError(
                    f"target `{pair.target.name}` keeps the conversation itself, so it cannot continue that of target"
                    f" `{fork.of}`",
                    "Fork at turn 1, or continue with a target that is sent the whole conversation: --target NAME.",
                )
            said_again[pair.target.name] = None
        return self.options.changed(fork=structs.replace(fork, said_again=tuple(said_again)))

    def _try_to_open(self, suite: Suite, target: Target) -> OpenTarget | None:
        try:
            return self.targets.open(suite, target)
        except RejoinderError as error:
            self.closed[suite.path, target.name] = error
            return None

    def model_of(self, suite: Suite, target: Target, earlier: Mapping[str, str | None]) -> str | None:
        """The model that a target asks for; `earlier`: what it asked for in earlier runs, which are not called now."""
        opened = self.targets.find(suite, target) if self.opens_targets else None
        if opened is None:  # it is not called, so its variables need not be set
            model = model_of(target)
            return earlier.get(target.name, model) if not model or "${{" in model else model
        return None if opened.model is None else self.mask.hide_text(opened.model)

    def priced(self, suite: Suite, target: Target, reply: Reply) -> Reply:
        """A recorded reply that had no known price when it was recorded, and may have one now."""
        opened = self.targets.find(suite, target) if self.opens_targets else None
        return reply if opened is None or opened.info.local else opened.priced(reply)

    def refuse_other_models(self, run: str, then: Mapping[str, str | None]) -> None:
        """A run has one model for each target. Raises UsageError where a variable that names it has another value."""
        names = Counter(target.name for _, target in self.survey.targets)
        for suite, target in self.survey.targets if self.opens_targets else ():
            written, model = model_of(target) or "", then.get(target.name)
            # A receipt has one model for each name.
            if names[target.name] > 1 or model is None or "${{" not in written or not self.targets.find(suite, target):
                continue
            now = self.model_of(suite, target, {})
            if now != model:
                raise UsageError(
                    f"target `{target.name}` asked model `{model}` in run {run} and would now ask `{now}`",
                    f"A run has one model for each target. Set `{written}` to what it was, or start a new run.",
                )

    def close(self) -> None:
        """Release what is held for the run, if it was not played, too."""
        self.targets.loan.close()


def _add_traceback(error: RejoinderError, secrets: dict[str, str]) -> None:
    """Show the traceback of the user's own code, if there is no run yet whose log could hold it."""
    fault = error.__cause__
    if isinstance(fault, FunctionFault) and fault.traceback:
        error.hint = Mask(secrets).hide_text(fault.traceback.rstrip())

"""What a run has spent before it is resumed: counted from its journal, and bounded where a call is in doubt."""

from __future__ import annotations

from collections.abc import Mapping

from rejoinder.engine.loops import complete
from rejoinder.engine.plan import plan
from rejoinder.engine.retrace import retrace
from rejoinder.engine.setup import Setup
from rejoinder.model import Reply
from rejoinder.model.spending import NOTHING, Amount
from rejoinder.providers.registry import info_of
from rejoinder.runs.earlier import EarlierRuns
from rejoinder.runs.folder import RunFolder
from rejoinder.runs.journal import History, Told, read_journal, read_journals
from rejoinder.runs.ledger import Asks, Ledger
from rejoinder.runs.names import file_of
from rejoinder.runs.secrets import Mask


def read_spent(setup: Setup, folder: RunFolder, mask: Mask, parts: EarlierRuns) -> tuple[History, Amount]:
    """The run's journal, read with `mask`, and what was spent under its budget until now, by its parts too."""
    limits = setup.options.limits
    if not limits.has_budget:
        return read_journal(folder.journal, mask), NOTHING
    several = len({suite.path for suite, _ in setup.survey.targets}) > 1
    targets = {
        (file_of(suite) if several else "", target.name): (suite, target) for suite, target in setup.survey.targets
    }
    free = {asks for asks, (_, target) in targets.items() if not info_of(target.provider).counted}

    def priced(asks: Asks, reply: Reply) -> Reply:
        return setup.priced(*targets[asks], reply) if asks in targets else reply

    ledger = Ledger(free, priced, in_usd=limits.budget_usd is not None)
    history = read_journal(folder.journal, mask, ledger)
    read_journals(parts.journals(setup.mask), ledger)
    if not ledger.unknown:
        return history, ledger.spent
    known = {**parts.told(setup.mask), **history.told}
    return history, ledger.spent + complete(_most_of(ledger.unknown, known, setup))


async def _most_of(unknown: Mapping[str, int], told: Mapping[str, Told], setup: Setup) -> Amount:
    """Upper bound for calls left in doubt by a run that had no such budget when it made them. It follows from what they
    asked, so their conversations are played again."""
    most: dict[str, Amount] = {}
    in_usd = setup.options.limits.budget_usd is not None
    for job in plan(setup.suites, setup.options):
        tape, _ = await retrace(job, told)
        for call in (call for call, _ in tape.calls if call.key in unknown):
            opened = None if call.target is None else setup.targets.find(job.prepared.suite, call.target)
            most[call.key] = NOTHING if opened is None else opened.most(call.request, in_usd=in_usd)
    largest = max(most.values(), key=lambda amount: (amount.usd, amount.tokens), default=NOTHING)
    return sum((most.get(key, largest) for key, number in unknown.items() for _ in range(number)), NOTHING)

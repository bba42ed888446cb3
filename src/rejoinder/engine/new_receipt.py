"""The receipt of a run that begins."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from rejoinder._version import __version__
from rejoinder.engine.setup import Setup
from rejoinder.model import Receipt
from rejoinder.model.providers import row_of
from rejoinder.model.runs import SuiteOfRun, TargetOfRun
from rejoinder.project.git_state import read_git_state
from rejoinder.runs.folder import RUN_FORMAT, RunFolder
from rejoinder.runs.inputs import digests_of
from rejoinder.runs.receipt import now


def new_receipt(folder: RunFolder, setup: Setup, earlier: Mapping[str, str | None]) -> Receipt:
    """`earlier`: the models of earlier runs, by target."""
    targets = {target.name: (suite, target) for suite, target in setup.survey.targets}
    hidden, given = ("runs", "asks", "otherwise", "given"), setup.options.selection.given
    code = {} if given is None else {given.name: given.code}
    receipt = Receipt(
        id=folder.id,
        status="running",
        started_at=now(),
        version=__version__,
        format=RUN_FORMAT,
        folder=str(folder.path),
        suites=tuple(SuiteOfRun(suite.path, suite.name, suite.files) for suite in setup.suites),
        targets=tuple(
            TargetOfRun(target.name, target.provider, setup.model_of(suite, target, earlier), code.get(target.name))
            for suite, target in targets.values()
        ),
        options={name: value for name, value in setup.options.flat().items() if name not in hidden},
        replayed=tuple(_replayed(setup)),
        planned=setup.survey.planned,
        chosen=setup.survey.chosen,
        judges_itself=setup.survey.judges_itself,
        in_doubt=0,
        duration_s=0.0,
        python=sys.version.split()[0],
        git=read_git_state(Path(setup.suites[0].root)),
        digests=digests_of(setup.suites, setup.mask, given),
    )
    return msgspec.json.decode(setup.mask.hide(msgspec.json.encode(receipt)), type=Receipt) if setup.mask else receipt


def _replayed(setup: Setup) -> Iterator[str]:
    """The targets that cassettes answer for although what they test may have changed: the user's own code, and servers
    that are not a vendor's."""
    if setup.options.answers.replay is None:
        return
    from rejoinder.providers.vendors import is_of_vendor

    for suite, target in setup.survey.targets:
        row = row_of(target.provider)
        if not row.at_once and not row.local and not is_of_vendor(target, setup.targets.environment_of(suite)):
            yield target.name

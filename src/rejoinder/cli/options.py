"""The options that commands share, in the groups of the engine: selection, pace, limits, answers and trust."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from rejoinder.cli.grouping import AliasedOption, Decorator, Values, grouped
from rejoinder.cli.output import words
from rejoinder.cli.parameter_types import AUTO, DOLLARS, FAIL_UNDER, LIFETIME, REPEAT, SHARD
from rejoinder.runs.options import MOST_CONFIRMED, Confirm, Rounds, RunOptions

_PATH = click.Path(path_type=Path)


def _option(*names: str, aliases: tuple[str, ...] = (), **settings: Any) -> Decorator:
    return click.option(*names, cls=AliasedOption, aliases=aliases, **settings)


def _resolved(_context: click.Context, _option: click.Parameter, path: Path | None) -> str | None:
    return None if path is None else str(path.resolve())


def _words(_context: click.Context, _option: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(words(value))


def _is_given(_context: click.Context, _option: click.Parameter, value: tuple[str, ...]) -> bool:
    return bool(value)


def _cassettes(_context: click.Context, _option: click.Parameter, folder: Path | None) -> str | None:
    if folder is not None and not folder.is_dir():
        raise click.UsageError(f"there is no folder {folder} with cassettes; `run --record {folder}` writes one")
    return None if folder is None else str(folder.resolve())


def target_names_option(help_text: str) -> Decorator:
    """Targets by name, where no pattern of models is meant."""
    names = ("--target", "-m", "--model")
    return click.option(*names, "targets", multiple=True, metavar="NAME,...", callback=_words, help=help_text)


PACE: dict[str, Decorator] = {
    "workers": _option(
        "--workers",
        "-w",
        aliases=("--threads", "-t"),
        type=click.IntRange(1),
        help="Run N conversations at the same time.  [default: 10]",
    ),
    "timeout_s": _option(
        "--timeout",
        "timeout_s",
        aliases=("--agent-timeout",),
        type=click.FloatRange(min=0, min_open=True),
        metavar="SECONDS",
        help="End each request after this time.",
    ),
    "max_retries": _option(
        "--max-retries", type=click.IntRange(0), help="Retry a failed request up to N times.  [default: 3]"
    ),
}
LIMITS: dict[str, Decorator] = {
    "budget_usd": _option("--budget-usd", type=DOLLARS, help="Stop before more than this many dollars are spent."),
    "budget_tokens": _option(
        "--budget-tokens", type=click.IntRange(1), help="Stop before more than N tokens are used."
    ),
    "max_tokens": _option(
        "--max-tokens", type=click.IntRange(1), help="Limit replies of targets that set no limit themselves."
    ),
}
TRUST: dict[str, Decorator] = {
    "no_code": click.option("--no-code", is_flag=True, help="Refuse suites that run code of the project."),
    "trust_env": click.option(
        "--trust-env", is_flag=True, help="Send keys to addresses from a .env file that does not hold the key."
    ),
}
SELECTION: dict[str, Decorator] = {
    "repeat": _option(
        "--repeat",
        "-n",
        type=REPEAT,
        default=1,
        metavar="N|auto",
        help="Run each case N times; auto: until it tells the run from a baseline.",
    ),
    "against": _option(
        "--against",
        metavar="NAME",
        help="Compare with this baseline: ask newly failing cases again, then let the gate decide the exit code.",
    ),
    "confirm": _option(
        "--confirm",
        type=click.IntRange(0, 1000),
        metavar="N",
        help=f"Ask newly failing cases again, up to N times (with --against).  [default: {MOST_CONFIRMED}]",
    ),
    "cases": _option(
        "--case",
        "cases",
        aliases=("--eval-id",),
        multiple=True,
        metavar="ID,...",
        help="Run only these cases; patterns such as 'refund*'.",
    ),
    "tags": _option("--tag", "tags", multiple=True, metavar="TAG,...", help="Run only cases with one of these tags."),
    "limit": _option("--limit", type=click.IntRange(1), help="Run only the first N cases."),
    "shard": _option(
        "--shard", type=SHARD, metavar="N/M", help="Run only part N of M of the cases, split by a stable hash."
    ),
    "targets": _option(
        "--target",
        "targets",
        multiple=True,
        metavar="NAME,...",
        callback=_words,
        help="Run on this target; several are compared.",
    ),
    "variants": _option(
        "--variant",
        "variants",
        multiple=True,
        metavar="NAME,...",
        callback=_words,
        help="Run only this variant of the suites; repeatable.",
    ),
    "targets_file": _option(
        "--targets", "targets_file", type=_PATH, callback=_resolved, help="Read more targets from this file."
    ),
    "system_prompt": _option(
        "--system-prompt", aliases=("-s",), metavar="TEXT", help="Replace the system prompt of the suites."
    ),
}
KEPT: dict[str, Decorator] = {
    "include_messages": _option(
        "--include",
        "include_messages",
        multiple=True,
        type=click.Choice(["messages"]),
        callback=_is_given,
        help="Add to each turn the messages that were sent.",
    ),
    "keep_workspaces": _option(
        "--keep-workspaces",
        is_flag=False,
        flag_value="all",
        type=click.Choice(["all", "failed"]),
        help="Keep the workspaces of agents in .rejoinder/workspaces: all, or of those that did not pass.",
    ),
}
"""Options that keep more of each conversation than its result."""
ANSWERS: dict[str, Decorator] = {
    "cache": _option("--cache", is_flag=True, help="Answer equal requests to LLM APIs from the cache of earlier runs."),
    "cache_lifetime_s": _option(
        "--cache-ttl",
        "cache_lifetime_s",
        type=LIFETIME,
        metavar="TIME",
        help="Ignore cached answers older than this, such as 12h or 7d.",
    ),
    "record": _option(
        "--record", type=_PATH, metavar="DIR", callback=_resolved, help="Write a cassette of each conversation."
    ),
    "replay": _option(
        "--replay", type=_PATH, metavar="DIR", callback=_cassettes, help="Answer from cassettes, without any call."
    ),
}
FAIL_FAST: dict[str, Decorator] = {
    "fail_fast": _option("--fail-fast", is_flag=True, help="Start no more conversations after the first failure.")
}


def _run_options(values: Values) -> RunOptions:
    against, times, repeat = values.pop("against"), values.pop("confirm"), values.pop("repeat")
    if against is None and (repeat == AUTO or times is not None):
        option = "--repeat auto" if repeat == AUTO else "--confirm"
        raise click.UsageError(f"{option} needs --against NAME, the baseline to compare with")
    options = RunOptions(repeat=max(1, repeat)).changed(**values)
    if against is None:
        return options
    confirm = Confirm(against=against, times=MOST_CONFIRMED if times is None else times)
    return options.changed(confirm=confirm, rounds=Rounds(against=against) if repeat == AUTO else None)


run_options = grouped(
    "options",
    _run_options,
    **SELECTION,
    **KEPT,
    **PACE,
    **FAIL_FAST,
    **ANSWERS,
    **LIMITS,
    **TRUST,
)
"""Everything that can be decided about a new run."""


def changed_options(**options: Decorator) -> Decorator:
    """Options that change those of a recorded run: the command gets the values that the user gave."""
    return grouped("changes", _given, **options)


def _given(values: Values) -> Values:
    return {name: value for name, value in values.items() if value is not None}


fail_under_option = click.option(
    "--fail-under",
    type=FAIL_UNDER,
    metavar="RATE",
    help="Exit with 0 or 1 by the pass rate: 90%, or lower:85% for the lower end of its interval.",
)
trust_option = click.option("--trust", is_flag=True, help="Use the run folder's own copy of its suites.")

"""`rejoinder targets`"""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import click
from msgspec import structs

from rejoinder.cli.grouping import format_option, grouped, targets_option
from rejoinder.cli.loading import load_project_or_exit
from rejoinder.cli.options import TRUST
from rejoinder.cli.output import echo, echo_lines, form_for, show_problems, write_data
from rejoinder.errors import SuiteError, UsageError
from rejoinder.model import Suite, Target, Usage
from rejoinder.providers.settings import normalize_keys
from rejoinder.report.styled import Commands
from rejoinder.runs.options import RunOptions, Selection, Trust
from rejoinder.spelling import did_you_mean
from rejoinder.suite.discover import find_files
from rejoinder.suite.target_names import route_to_openrouter
from rejoinder.suite.targets import resolve
from rejoinder.words.numbers import listed, plural, seconds

if TYPE_CHECKING:
    from rejoinder.engine.probe import Probe
    from rejoinder.report.targets import Tried

_TOKENS = ("input_tokens", "output_tokens")
_suite_option = click.option(
    "--suite",
    "suite_file",
    type=click.Path(path_type=Path),
    help="Include the targets of this suite.  [default: the suite of the working directory]",
)


@click.group("targets", invoke_without_command=True)
@targets_option
@_suite_option
@format_option
@click.pass_context
def command(ctx: click.Context, targets_file: Path | None, suite_file: Path | None, form: str) -> None:
    """List the targets of the project and of its suite, and what each lacks to be asked. Nothing is sent."""
    ctx.obj = (targets_file, suite_file)
    if ctx.invoked_subcommand is not None:
        return
    from rejoinder.engine.probe import find_lack, find_left_out

    project = _read_project(targets_file, suite_file)
    rows: list[dict[str, Any]] = []
    for target in project.targets.values():
        lack, left_out = find_lack(target, project), find_left_out(target, project)
        state = {"ready": lack is None, "missing": None if lack is None else str(lack), "left_out": left_out}
        rows.append({**_described(target, left_out), **state})
    if form == "json":
        write_data(rows)
    elif not rows:
        echo("no targets; `rejoinder init` writes a first suite with one")
        echo("A model can also be named as provider/model: rejoinder targets check openai/gpt-5-mini")
    else:
        _show_list(rows)


@command.command("check")
@click.argument("names", metavar="[NAME]...", nargs=-1)
@targets_option
@_suite_option
@grouped("trust", lambda values: Trust(**values), **TRUST)
@format_option
@click.pass_context
def check(
    ctx: click.Context,
    names: tuple[str, ...],
    targets_file: Path | None,
    suite_file: Path | None,
    trust: Trust,
    form: str,
) -> None:
    """Ask each target one tiny question: does it answer, how fast, as which model, within what limits?

    A target that is for embeddings is asked for a vector.

    NAME is a target or provider/model; without any, every target is asked. Exit code 3 when one does
    not answer.
    """
    import asyncio

    from rejoinder.engine.probe import find_embedders, try_target

    before = ctx.obj  # options may stand before `check` as well
    project = _read_project(targets_file or before[0], suite_file or before[1])
    chosen = [_find(name, project) for name in names] or list(project.targets.values())
    if not chosen:
        raise UsageError("there are no targets to check", "Name one, for example openai/gpt-5-mini.")

    embedders, options = find_embedders(project), RunOptions(trust=trust)

    async def try_all() -> list[Probe]:
        return await asyncio.gather(*(try_target(target, project, options, embedders) for target in chosen))

    probes = asyncio.run(try_all())
    if form == "json":
        write_data([_probed(probe) for probe in probes])
    else:
        _show_probes(probes, project)
    sys.exit(3 if any(probe.error for probe in probes) else 0)


def _read_project(targets_file: Path | None, suite_file: Path | None) -> Suite:
    """The project's targets, and those of a suite: the one that is named, or those that `run` finds by itself."""
    if suite_file is not None:
        try:
            [suite] = _load([suite_file], targets_file)
        except SuiteError as error:
            show_problems(error.problems, err=True)
            sys.exit(2)
        return suite
    project = load_project_or_exit(targets_file)
    try:
        files, _ = find_files(())
    except UsageError:
        return project
    try:
        suites = _load(files, targets_file)
    except SuiteError:
        named = files[0] if len(files) == 1 else "a suite"
        echo(f"{named} has mistakes, so its targets are not known; `rejoinder validate` shows them", err=True)
        return project
    targets = {name: target for suite in (project, *reversed(suites)) for name, target in suite.targets.items()}
    return structs.replace(suites[0], targets=targets)


def _load(files: list[Path], targets_file: Path | None) -> list[Suite]:
    from rejoinder.runs.loading import load_options
    from rejoinder.validation.review import load_suites

    # With a target from outside, what the suite's own lacks is no mistake of the suite: the list is to show it.
    file = str(targets_file.resolve()) if targets_file else None
    options = RunOptions(selection=Selection(targets=("scripted/none",), targets_file=file))
    return load_suites(files, load_options(options))[0]


def _find(name: str, project: Suite) -> Target:
    routed = None if name in project.targets else route_to_openrouter(name, _environment(project))
    target = routed or resolve(name, project.targets)
    if target is None:
        hint = f"The targets are {', '.join(project.targets)}." if project.targets else ""
        hint += " Targets of a suite elsewhere are found with --suite FILE."
        raise UsageError(f"there is no target `{name}`{did_you_mean(name, project.targets)}", hint.strip())
    return target


def _environment(project: Suite) -> Mapping[str, str]:
    from rejoinder.suite.configuration import open_project

    return open_project(Path(project.path).parent).environment


def _described(target: Target, left_out: Collection[str] = ()) -> dict[str, Any]:
    settings = normalize_keys({name: value for name, value in target.settings.items() if name not in left_out})
    model = settings.get("model") or settings.get("deployment")
    return {"name": target.name, "provider": target.provider, "model": model, "file": target.file}


def _show_list(rows: list[dict[str, Any]]) -> None:
    shown = [(row["name"], row["provider"], row["model"] or "-", _state(row)) for row in rows]
    widths = [max(len(row[column]) for row in shown) for column in range(3)]
    for row in shown:
        columns = [text.ljust(width) for text, width in zip(row, widths, strict=False)]
        echo("  ".join([*columns, row[3]]).rstrip())


def _state(row: dict[str, Any]) -> str:
    message, _, hint = str(row["missing"]).partition("\n")
    state = "ready" if row["ready"] else f"{message} ({hint})" if hint else message
    notes = [f"without `{setting}`, because {variable} is not set" for setting, variable in row["left_out"].items()]
    return "; ".join([state, *notes])


def _probed(probe: Probe) -> dict[str, Any]:
    reply = probe.reply
    return {
        **_described(probe.target),
        "answers": reply is not None,
        "error": probe.error,
        "duration_s": round(probe.seconds, 3),
        "reply": None if reply is None else reply.text,
        "dimensions": len(reply.vector) // 4 if reply is not None and reply.vector else None,
        "reported_model": None if reply is None else reply.model,
        "usage": None if reply is None else {field: getattr(reply.usage, field) for field in _TOKENS},
        "cost": None if reply is None else reply.cost,
        "limits": {kind: {"left": left, "renewed_in_s": round(s, 3)} for kind, (left, s) in probe.left.items()},
    }


def _show_probes(probes: Sequence[Probe], project: Suite) -> None:
    from rejoinder.report.targets import write_targets

    echo_lines(
        write_targets([_tried(probe, project) for probe in probes], _next_commands(probes), form_for(sys.stdout))
    )


def _tried(probe: Probe, project: Suite) -> Tried:
    from rejoinder.report.targets import Tried, price_words

    target, reply = probe.target, probe.reply
    about = _described(target)
    model = about["model"] or (reply.model if reply is not None else None)
    called = f"{target.provider} {target.settings['call']}" if "call" in target.settings else target.provider
    return Tried(
        name=target.name,
        model=f"{target.provider}/{model}" if model else called,
        seconds=None if reply is None else probe.seconds,
        trouble=probe.trouble,
        problem=_problem(probe, project),
        price=price_words(_price(target, model, project)),
        place=_place(target),
        notes=tuple(_notes(probe)),
        cost=None if reply is None else reply.cost,
    )


def _problem(probe: Probe, project: Suite) -> str:
    """What is wrong; of a variable that is not set, where it was looked for."""
    from rejoinder.cli.results import relative
    from rejoinder.engine.probe import files_looked_in

    if not probe.variables:
        return re.sub(rf"^target `{re.escape(probe.target.name)}`(?: \(.*?\))?:? ", "", probe.error or "")
    files = [relative(path) for path in files_looked_in(project)]
    there = f" and in {listed(files)}" if files else "; there is no .env file"
    names = listed(list(probe.variables))
    return f"{names} {plural(len(probe.variables), 'is', 'are')} not set; looked in the environment{there}"


def _price(target: Target, model: str | None, project: Suite) -> tuple[float, float] | None:
    """Dollars per million tokens that are sent, and that come back, in a short call; None where it is not known."""
    from rejoinder.prices.price_list import PriceList
    from rejoinder.providers.target_prices import foreseen_price

    found = foreseen_price(target, Usage(1000, 1000), PriceList(project.prices), model=model)
    return None if found is None else (1000 * found.input, 1000 * found.output)


def _place(target: Target) -> str:
    """The file that defines a target, and the line of its name there."""
    if target.file is None:
        return "the command"
    with contextlib.suppress(OSError, UnicodeError):
        lines = Path(target.file).read_text("utf-8").splitlines()
        written = re.compile(rf"""\bname["']?\s*:\s*["']?{re.escape(target.name)}["']?\s*(?:[,}}#]|$)""")
        number = next((number for number, line in enumerate(lines, 1) if written.search(line)), None)
        return f"{target.file}:{number}" if number else target.file
    return target.file


def _notes(probe: Probe) -> Iterator[str]:
    reply = probe.reply
    if reply is None:
        return
    asked = _described(probe.target)["model"]
    if reply.model and asked and reply.model != asked:
        yield f"answers as {reply.model}"
    if reply.vector:
        yield f"a vector of {len(reply.vector) // 4} numbers"
    for kind, (left, renewed_s) in probe.left.items():
        yield f"{left:,.0f} {kind} left, renewed in {seconds(renewed_s)}"


def _next_commands(probes: Sequence[Probe]) -> Commands:
    """What gives the variables that are missing; else the same for what did not answer."""
    failed = [probe for probe in probes if probe.reply is None]
    variables = list(dict.fromkeys(name for probe in failed for name in probe.variables))
    if variables:
        return ((f"export {' '.join(f'{name}=...' for name in variables)}", "then the same again"),)
    names = [probe.target.name for probe in failed]
    if not names or len(names) == len(probes) or not all(name.isprintable() for name in names):
        return ()
    again = plural(len(names), "this one again", f"these {len(names):,} again")
    return ((f"rejoinder targets check {' '.join(map(quote, names))}", again),)

"""`rejoinder targets`"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rejoinder.cli.grouping import format_option, grouped, targets_option
from rejoinder.cli.loading import load_project_or_exit
from rejoinder.cli.options import TRUST
from rejoinder.cli.output import echo, show_problems, write_data
from rejoinder.engine.options import RunOptions, Selection, Trust
from rejoinder.errors import UsageError
from rejoinder.model import Suite, Target
from rejoinder.providers.settings import normalize_keys
from rejoinder.spelling import did_you_mean
from rejoinder.suite import resolve

if TYPE_CHECKING:
    from rejoinder.engine.probe import Probe

_TOKENS = ("input_tokens", "output_tokens")
_suite_option = click.option(
    "--suite", "suite_file", type=click.Path(path_type=Path), help="Include the targets that this suite brings itself."
)


@click.group("targets", invoke_without_command=True)
@targets_option
@_suite_option
@format_option
@click.pass_context
def command(ctx: click.Context, targets_file: Path | None, suite_file: Path | None, form: str) -> None:
    """List the project's targets, and what each lacks to be asked. Nothing is sent."""
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

    NAME is a target or provider/model; without any, every target of the project is asked. Exit code 3 when one does
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
        for probe in probes:
            echo(*_lines(probe))
    sys.exit(3 if any(probe.error for probe in probes) else 0)


def _read_project(targets_file: Path | None, suite_file: Path | None) -> Suite:
    """The project's targets, and those of a suite where one is named."""
    if suite_file is not None:
        from rejoinder.engine.loading import load_options
        from rejoinder.errors import SuiteError
        from rejoinder.review import load_suites

        # With a target from outside, what the suite's own lacks is no mistake of the suite: the list is to show it.
        file = str(targets_file.resolve()) if targets_file else None
        options = RunOptions(selection=Selection(targets=("scripted/none",), targets_file=file))
        try:
            [suite], _ = load_suites([suite_file], load_options(options))
        except SuiteError as error:
            show_problems(error.problems, err=True)
            sys.exit(2)
        return suite
    return load_project_or_exit(targets_file)


def _find(name: str, project: Suite) -> Target:
    target = resolve(name, project.targets)
    if target is None:
        hint = f"The targets are {', '.join(project.targets)}." if project.targets else ""
        hint += " Targets that a suite brings itself are found with --suite FILE."
        raise UsageError(f"there is no target `{name}`{did_you_mean(name, project.targets)}", hint.strip())
    return target


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


def _lines(probe: Probe) -> Iterator[str]:
    name = probe.target.name
    if probe.reply is None:
        yield f"{name}: no answer: {probe.error}"
        return
    reply = probe.reply
    words = [f"{probe.seconds:.2f} s", f"model {reply.model or 'not reported'}"]
    if reply.vector:
        words.append(f"a vector of {len(reply.vector) // 4} numbers")
    words.append(f"{reply.usage.input_tokens} tokens in, {reply.usage.output_tokens} out")
    words.append("price unknown" if reply.cost is None else f"${reply.cost:.6f}")
    yield f"{name}: answers in {', '.join(words)}"
    for kind, (left, seconds) in probe.left.items():
        yield f"  {left:,.0f} {kind} left, renewed in {seconds:.0f} s"

"""What `run`, `resume` and `show` share: writing down what a run came to."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from math import ceil, floor, log10
from pathlib import Path
from shlex import quote
from typing import Any

import click

from rejoinder.cli.output import count, echo, write_machine
from rejoinder.engine.results import Outline
from rejoinder.engine.run import RunReport
from rejoinder.errors import UsageError, reason_of
from rejoinder.project import find_root
from rejoinder.report.conversation import shorten_line, write_conversation, write_reasons
from rejoinder.report.signs import signs_for
from rejoinder.report.summary import write_summary

MOST_SHOWN = 20
"""Conversations that are shown without being asked for."""


def output_options(command: Callable[..., Any]) -> Callable[..., Any]:
    options = (
        click.option(
            "--format",
            "form",
            type=click.Choice(["text", "json", "jsonl", "yaml"]),
            default="text",
            show_default=True,
            help="How results are written.",
        ),
        click.option("--out", type=click.Path(path_type=Path), help="Write the results to a file as well."),
        click.option("--verbose", "-v", is_flag=True, help="Show every conversation, turn by turn."),
        click.option(
            "--corrected", is_flag=True, help="Show what judges' pass rates come to when their errors are counted in."
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


_FORMS = {".json": "json", ".jsonl": "jsonl", ".yaml": "yaml", ".yml": "yaml"}
"""The form of a file of results, by its suffix."""


def check_out(out: Path | None, form: str) -> None:
    """Find out before anything is sent whether the results can be written where they are wanted."""
    if out is None:
        return
    _form_of(out, form)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with out.open("a", encoding="utf-8"):
            pass
    except OSError as error:
        raise UsageError(f"{out} cannot be written: {reason_of(error)}") from None


def write_report(
    report: RunReport,
    form: str,
    out: Path | None,
    *,
    out_form: str | None = None,
    verbose: bool,
    corrected: bool = False,
) -> None:
    """Machine-readable results alone on standard output; for people, conversations and a summary. `out_form` is the
    form of the file, where it is another than that of standard output."""
    if out is not None:
        _write_file(report, out_form or form, out)
    try:
        _write_output(report, form, verbose, corrected)
    except BrokenPipeError:
        # Whoever read our output has enough of it. How the run went is still to be told by the exit code.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _write_output(report: RunReport, form: str, verbose: bool, corrected: bool) -> None:
    if form == "text":
        _write_text(report, verbose, corrected)
        return
    for piece in _machine(report, form):
        write_machine(piece)
    reason = {"interrupted": "interrupted", "budget": "the budget is reached"}.get(report.run["status"])
    if reason is not None:
        echo(f"{reason}; go on with: {next_command(report)}", err=True)


def _write_file(report: RunReport, form: str, out: Path) -> None:
    kind = _form_of(out, form)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with out.open("w", encoding="utf-8", newline="\n") as stream:
            for piece in _machine(report, kind):
                stream.write(piece)
    except OSError as error:
        raise UsageError(f"{out} cannot be written: {reason_of(error)}") from None


def _form_of(out: Path, form: str) -> str:
    """The form that `--format` names, else that of the suffix. Raises UsageError where neither says one."""
    if form != "text":
        return form
    if out.suffix.lower() not in _FORMS:
        raise UsageError(
            f"{out} has a suffix that names no form of results",
            f"The suffixes are {', '.join(_FORMS)}; --format names the form for any other.",
        )
    return _FORMS[out.suffix.lower()]


def _machine(report: RunReport, form: str) -> Iterator[str]:
    import json

    if form == "json":
        yield json.dumps(report.document(), ensure_ascii=False, indent=2) + "\n"
    elif form == "jsonl":
        for result in report.results:
            yield json.dumps(result, ensure_ascii=False) + "\n"
    else:
        import yaml

        for result in report.results:
            yield "---\n" + yaml.safe_dump(result, allow_unicode=True, sort_keys=False)


def _write_text(report: RunReport, verbose: bool, corrected: bool) -> None:
    signs = signs_for(sys.stdout)
    targets, trials = len(report.summary["by_target"]), report.run["options"].get("repeat", 1)
    several = len(report.run["suites"]) > 1, targets > 1, trials > 1
    chosen, left_out = _choose(report, verbose)
    reasons: list[str] = []
    cut = False
    for outline in chosen:
        result, number = outline.read(), outline.number
        label = _label(result, *several)
        echo(*write_conversation(number, result, label=label, signs=signs, whole=verbose), "")
        if len(reasons) < MOST_SHOWN or not verbose:
            reasons += write_reasons(number, result, label) if verbose else _short_reasons(number, result, label)
        else:
            cut = cut or result["status"] in ("failed", "error")
    for status, number in left_out.items():
        echo(f"{count(number, 'more conversation')} {status}; --verbose shows all")
    if left_out:
        echo("")
    if reasons:
        echo("Not passed:", *reasons)
        if cut:
            echo("  ... and more; --format json shows all")
        echo("")
    echo(*write_summary(report.run, report.summary, corrected=corrected))
    echo(f"  {'run':10}{relative(report.folder.path)}")
    echo(*tracebacks(report))
    echo("", f"Next: {next_command(report)}")


def _short_reasons(number: int, result: dict[str, Any], label: str) -> Iterator[str]:
    return map(shorten_line, write_reasons(number, result, label))


def tracebacks(report: RunReport) -> Iterator[str]:
    """Where to look when the user's own code raised an error."""
    if report.summary["errors"] and report.folder.has_tracebacks:
        yield f"  {'traceback':10}{relative(report.folder.path / 'run.log')}"


def _choose(report: RunReport, verbose: bool) -> tuple[list[Outline], dict[str, int]]:
    """What is shown of a run, in document order, and how much is not: failures come before recoveries."""
    failed: list[tuple[int, Outline]] = []
    recovered: list[tuple[int, Outline]] = []
    left_out = {"did not pass": 0, "recovered": 0}
    if not verbose and report.summary["first_try"] == report.summary["total"]:
        return [], {}
    for place, outline in enumerate(report.results.outlines()):
        if verbose:
            failed.append((place, outline))
        elif outline.status == "passed" and outline.succeeded_on_turn != 1:
            _keep(recovered, (place, outline), left_out, "recovered")
        elif outline.status in ("failed", "error") and not _is_known(outline, report.run):
            _keep(failed, (place, outline), left_out, "did not pass")
    room = len(recovered) if verbose else max(0, MOST_SHOWN - len(failed))
    left_out["recovered"] += len(recovered[room:])
    chosen = sorted(failed + recovered[:room], key=lambda one: one[0]) if not verbose else failed
    return [outline for _, outline in chosen], {status: number for status, number in left_out.items() if number}


def _keep(kept: list[tuple[int, Outline]], one: tuple[int, Outline], left_out: dict[str, int], status: str) -> None:
    if len(kept) < MOST_SHOWN:
        kept.append(one)
    else:
        left_out[status] += 1


def _is_known(outline: Outline, run: dict[str, Any]) -> bool:
    """Did it end with its target or its judge? That is told once, and not for each conversation."""
    if outline.status != "error" or not run.get("given_up"):
        return False
    error = outline.read()["error"]
    return error is not None and any(one["message"] in error["message"] for one in run["given_up"])


def _label(result: dict[str, Any], suites: bool, targets: bool, trials: bool) -> str:
    """What tells a conversation from others of the same number, where there are several suites, targets or trials."""
    parts = [result["suite"]] if suites else []
    parts += [result["target"]] if targets else []
    parts += [f"trial {result['trial']}"] if trials else []
    return f" ({', '.join(parts)})" if parts else ""


def next_command(report: RunReport) -> str:
    here = find_root(Path.cwd(), Path.cwd())
    is_own = report.folder.path.is_relative_to(here / ".rejoinder")
    name = quote(report.folder.id if is_own else relative(report.folder.path))
    if not is_own or report.run["status"] == "running":
        return f"rejoinder show {name} --verbose"
    if report.run["status"] == "budget":
        return f"rejoinder resume {name} {' '.join(_more_budget(report.run['budget']))}"
    if report.run.get("replay_of") or report.run["options"].get("replay"):
        return f"rejoinder show {name} --verbose"
    if report.summary["errors"]:
        return f"rejoinder resume {name} --retry-errors"
    if report.run["status"] != "completed" or report.summary["unfinished"]:
        return f"rejoinder resume {name}"
    return f"rejoinder show {name} --verbose"


def relative(path: Path) -> str:
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def _more_budget(budget: dict[str, Any]) -> list[str]:
    """Options that give a run twice as much, or what the next call needs where that is more."""
    usd, tokens = budget["needed"]
    options: list[str] = []
    if budget["usd"] is not None:
        wanted = max(2 * budget["usd"], budget["spent_usd"] + usd)
        scale = 10 ** (2 - floor(log10(wanted)))
        options.append(f"--budget-usd {ceil(round(wanted * scale, 6)) / scale:g}")
    if budget["tokens"] is not None:
        options.append(f"--budget-tokens {max(2 * budget['tokens'], budget['spent_tokens'] + tokens)}")
    return options

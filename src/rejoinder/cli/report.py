"""`rejoinder report`"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import click

from rejoinder.cli.options import trust_option
from rejoinder.cli.output import echo
from rejoinder.cli.results import since_of
from rejoinder.engine.run import show_run, sound_run
from rejoinder.errors import UsageError, reason_of
from rejoinder.project.folders import display_path, find_root
from rejoinder.report import html
from rejoinder.report.card import Theme, write_card
from rejoinder.runs.own_files import files_of, refuse_own_file
from rejoinder.runs.recorded import RecordedRun, open_recorded
from rejoinder.runs.report import RunReport
from rejoinder.runs.verify import Verification, verify_run


@click.command("report")
@click.argument("runs", nargs=-1, metavar="[RUN [RUN]]")
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write to this file.  [default: RUN.html, or card.svg]",
)
@click.option("--full", is_flag=True, help="Include all conversations, even of very large runs.")
@click.option("--card", is_flag=True, help="Write the board as a picture instead (SVG).")
@click.option("--dark", is_flag=True, help="With --card: light on dark.")
@click.option("--open", "opens", is_flag=True, help="Open it in a browser.")
@trust_option
def command(
    runs: tuple[str, ...], out: Path | None, full: bool, card: bool, dark: bool, opens: bool, trust: bool
) -> None:
    """Write a run (the latest when RUN is not given), or two runs side by side, as one HTML file.

    The file has everything in it: it opens from the disk, needs no network and can be sent to others. RUN is named as
    for `show`; two runs are named as for `compare`. Exit code 0 if the file was written, even if the run failed;
    3 if the run is damaged: then the file only says what is wrong.

    With --card it writes a picture of 1200 x 630 pixels for chats and slides: does the run's target listen, and how
    did its conversations end?
    """
    if dark and not card:
        raise UsageError("--dark is for --card", "The page of a run follows the reader's system.")
    recorded = _open(runs, trust=trust)
    if card:
        _write_card(recorded, out or Path("card.svg"), full=full, theme="dark" if dark else "light", opens=opens)
        return
    verified = [verify_run(run) for run in recorded]
    path = out or Path(f"{'-'.join(run.folder.id for run in recorded)}.html")
    damaged = [one for one in verified if one.verdict == "damaged"]
    if damaged:
        _write(path, _damaged(damaged), recorded)
        _tell(path)
        echo(f"run {damaged[0].run} is damaged: the file says what is wrong, without figures", err=True)
    else:
        _write(path, _pieces([show_run(run) for run in recorded], full=full), recorded)
        _tell(path)
    if opens:
        _open_in_browser(path)
    sys.exit(damaged[0].exit_code if damaged else 0)


def _write_card(recorded: Sequence[RecordedRun], path: Path, *, full: bool, theme: Theme, opens: bool) -> None:
    """Raises RunDamaged for a damaged run: a picture has no room to say what is wrong."""
    if len(recorded) > 1:
        raise UsageError("--card shows one run, and two are named", "Name one of them.")
    if full:
        raise UsageError("--card has no conversations, so --full does not fit", "Leave out one of them.")
    _write(path, [write_card(sound_run(recorded[0]), theme)], recorded)
    _tell(path)
    if opens:
        _open_in_browser(path)


def _open_in_browser(path: Path) -> None:
    import webbrowser

    webbrowser.open(path.resolve().as_uri())


def _open(names: Sequence[str], *, trust: bool) -> list[RecordedRun]:
    if len(names) > 2:
        raise UsageError(f"{len(names)} runs are named, and a report shows one or two", "Name two of them.")
    if len(names) < 2:
        return [open_recorded(names[0] if names else None, trust=trust)]
    from rejoinder.gates.verbs import blessed_run
    from rejoinder.runs.comparing import runs_to_compare

    root = find_root(Path.cwd(), Path.cwd())
    return runs_to_compare([blessed_run(root, name) for name in names], trust=trust)


def _pieces(reports: Sequence[RunReport], *, full: bool) -> Iterator[str]:
    if len(reports) == 1:
        return html.write(reports[0], full=full, since=since_of(reports[0]))
    from rejoinder.runs.comparing import compare_reports

    a, b = reports
    return html.write_pair(a, b, compare_reports(a, b), full=full)


def _damaged(verified: Sequence[Verification]) -> Iterator[str]:
    several = len(verified) > 1
    wrong = [
        f"{f'{one.run}, ' if several else ''}{difference.file}: {difference.words}"
        for one in verified
        for difference in one.differences
    ]
    return html.write_damaged(verified[0].run, wrong, sum(one.more for one in verified))


def write_report(report: RunReport, path: Path | None) -> None:
    """The file of a run that has just ended; without a path it is named by the run."""
    path = path or Path(f"{report.folder.id}.html")
    sources = [RecordedRun(report.folder, find_root(Path.cwd(), Path.cwd()))]
    _write(path, html.write(report, since=since_of(report)), sources)
    _tell(path, err=True)


def _write(path: Path, pieces: Iterable[str], sources: Iterable[RecordedRun]) -> None:
    """Raises UsageError where the file cannot be written, or is one that the results come from."""
    refuse_own_file(path, [file for run in sources for file in files_of(run)])
    try:
        html.write_to(path, pieces)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {reason_of(error)}") from None


def _tell(path: Path, *, err: bool = False) -> None:
    size = path.stat().st_size
    echo(f"wrote {display_path(path.resolve(), Path.cwd())} ({_size(size)})", err=err)
    if size >= html.LARGE:
        echo("a file of this size opens slowly, and mail refuses it; `rejoinder view` shows runs of any size", err=True)


def _size(size: int) -> str:
    """`87 kB`, `26.2 MB`."""
    return f"{max(1, round(size / 1000)):,} kB" if size < 999_500 else f"{size / 1_000_000:,.1f} MB"

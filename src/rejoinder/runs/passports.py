"""Passports of judges in files: `rejoinder judge test` writes them to `.rejoinder/passports`, and runs show them."""

from __future__ import annotations

import contextlib
from pathlib import Path

import msgspec
from msgspec import structs

from rejoinder.errors import UsageError, reason_of
from rejoinder.model import Receipt, Summary
from rejoinder.model.figures import Corrected
from rejoinder.model.passports import PASSPORT_FORMAT, Passport
from rejoinder.model.runs import JudgeSummary
from rejoinder.run_files import RunDamaged, make_folder, read_whole, replace_file

FOLDER = ".rejoinder/passports"
LARGEST = 1 << 24
"""Bytes of a passport; ours have some thousand."""


def add_passports(summary: Summary, run: Receipt, root: Path) -> Summary:
    """The summary with what is known about each judge: one may have been tested since the run."""
    return structs.replace(summary, judges=tuple(_with_passport(judge, run, root) for judge in summary.judges))


def _with_passport(judge: JudgeSummary, run: Receipt, root: Path) -> JudgeSummary:
    model = judge_identity(run, judge.target)
    passport = find_passport(root, model, judge.digest)
    brief, corrected = (passport.brief, _corrected(passport, judge)) if passport is not None else (None, None)
    return structs.replace(judge, model=model, passport=brief, corrected=corrected)


def _corrected(passport: Passport, judge: JudgeSummary) -> Corrected | None:
    """The pass rate that people would see where the judge sees this one on first replies; None if it is unknown."""
    if judge.rate is None:
        return None
    from rejoinder.stats.corrected import corrected_rate

    found = corrected_rate(judge.rate, passport.passes, passport.fails, judge.errors)
    return found if found.rate is not None else None


def judge_identity(run: Receipt, target: str) -> str:
    """A judge's provider and model, whatever a suite calls its target."""
    return next((f"{one.provider}/{one.model or target}" for one in run.targets if one.name == target), target)


def _path(root: Path, judge: str, digest: str) -> Path:
    name = "".join(letter if (letter.isascii() and letter.isalnum()) or letter in "._" else "-" for letter in judge)
    return root / FOLDER / f"{name[:100]}-{digest}.json"


def write_passport(root: Path, passport: Passport) -> Path:
    path = _path(root, passport.judge, passport.digest)
    try:
        make_folder(path.parent)
        with replace_file(path) as stream:
            stream.write(msgspec.json.format(msgspec.json.encode(passport), indent=2) + b"\n")
    except OSError as error:
        reason = reason_of(error)
        hint = "The answers are kept: free some space, and repeat the command with --resume RUN."
        raise UsageError(f"cannot write the judge test {path}: {reason}", hint) from None
    return path


def find_passport(root: Path, judge: str, digest: str) -> Passport | None:
    """None if there is none, or none that this version can read."""
    with contextlib.suppress(OSError, msgspec.MsgspecError, UnicodeError, RecursionError, RunDamaged):
        passport = msgspec.json.decode(read_whole(_path(root, judge, digest), LARGEST), type=Passport)
        is_sound = all(part <= whole for part, whole in (passport.passes, passport.fails))
        if is_sound and passport.format == PASSPORT_FORMAT and (passport.judge, passport.digest) == (judge, digest):
            return passport
    return None

"""Judge passports: what is known about how far a judge can be trusted.

A passport holds for one judge (its model) told to do one thing (its digest). It is written by `rejoinder judge test`
and lies in `.rejoinder/passports`, beside the suites that it speaks of.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from rejoinder.errors import UsageError, reason_of
from rejoinder.run_files import RunDamaged, open_file, replace_file
from rejoinder.stats import ClusteredRate, rogan_gladen, rogan_gladen_interval

FOLDER = ".rejoinder/passports"
FORMAT = 1
LARGEST = 1 << 24
"""Bytes of a passport; ours have some thousand."""


class Labels(Struct, frozen=True):
    file: str
    hash: str
    rows: int
    scored: int
    """Rows that the judge gave a verdict on."""


class _Needed(Struct):
    """Of the figures, those that are printed beside the judge's scores."""

    agreement: float | None
    kappa: float | None


class Passport(Struct, frozen=True, kw_only=True):
    format: int = FORMAT
    judge: str
    """Provider and model."""
    digest: str
    """What the judge was told to do."""
    kind: str
    """The check, such as `llm_judge`."""
    asked: str = ""
    """What the judge was asked, as it was written."""
    labels: Labels
    repeat: int = 1
    figures: dict[str, Any]
    passes: tuple[int, int]
    """Of the replies that people pass, how many the judge passes: sensitivity."""
    fails: tuple[int, int]
    """Of the replies that people fail, how many the judge fails: specificity."""
    version: str
    created_at: str

    def corrected(self, judge: dict[str, Any]) -> dict[str, Any] | None:
        """The pass rate that people would see where the judge sees this one; None where it tells nothing."""
        passed, judged, cases = judge["passed"], judge["judged"], judge.get("cases", judge["judged"])
        if not (self.passes[1] and self.fails[1] and judged):
            return None
        rates = passed / judged, self.passes[0] / self.passes[1], self.fails[0] / self.fails[1]
        rate = rogan_gladen(*rates)
        if rate is None:
            return None
        seen = (passed, judged)
        if cases not in (1, judged):  # several verdicts on each case say less than as many on different ones
            seen = ClusteredRate(rates[0], judged, cases, judge["standard_error"])
        interval = rogan_gladen_interval(seen, self.passes, self.fails)
        return {"rate": rate, "interval": interval, "method": "Rogan-Gladen", "verdicts": judged, "cases": cases}

    def brief(self) -> dict[str, Any]:
        """What results say of it."""
        return {"labels": self.labels.scored, "created_at": self.created_at, "figures": self.figures}


def add_passports(judges: list[dict[str, Any]], run: dict[str, Any], root: Path) -> None:
    """Beside each judge of a run what is known about it."""
    for judge in judges:
        judge["model"] = identity = judge_identity(run, judge["target"])
        passport = find_passport(root, identity, judge["digest"])
        judge["passport"] = passport.brief() if passport is not None else None
        judge["corrected"] = passport.corrected(judge) if passport is not None else None


def judge_identity(run: dict[str, Any], target: str) -> str:
    """Who judges, whatever a suite calls it: provider and model, from the receipt of a run."""
    for one in run["targets"]:
        if one["name"] == target:
            return f"{one['provider']}/{one['model'] or target}"
    return target


def _path(root: Path, judge: str, digest: str) -> Path:
    name = "".join(letter if (letter.isascii() and letter.isalnum()) or letter in "._" else "-" for letter in judge)
    return root / FOLDER / f"{name[:100]}-{digest}.json"


def write_passport(root: Path, passport: Passport) -> Path:
    path = _path(root, passport.judge, passport.digest)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replace_file(path) as stream:
            stream.write(msgspec.json.format(msgspec.json.encode(passport), indent=2) + b"\n")
    except OSError as error:
        reason = reason_of(error)
        hint = "The answers are kept: make room for it, and give the same command with --resume RUN."
        raise UsageError(f"the passport {path} cannot be written: {reason}", hint) from None
    return path


def find_passport(root: Path, judge: str, digest: str) -> Passport | None:
    """None where there is none, or none that this version can read."""
    with contextlib.suppress(OSError, msgspec.MsgspecError, UnicodeError, RecursionError, RunDamaged):
        with open_file(_path(root, judge, digest)) as stream:
            found = msgspec.json.decode(stream.read(LARGEST), type=Passport)
        msgspec.convert(found.figures, _Needed)
        sound = all(0 <= part <= whole for part, whole in (found.passes, found.fails))
        if sound and found.format == FORMAT and (found.judge, found.digest) == (judge, digest):
            return found
    return None

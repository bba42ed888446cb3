"""Short texts that reports and commands share: counts, money, time and tokens, each said in one way.

Rates and what is told of them are in `stats.words`, because gates say them, too.
"""

from __future__ import annotations

from math import ceil, floor, log10
from typing import TypeAlias

from rejoinder.spelling import count as count

Commands: TypeAlias = tuple[tuple[str, str], ...]
"""What to type next, with what each does."""


def capital(words: str) -> str:
    """Words as they begin a sentence."""
    return f"{words[:1].upper()}{words[1:]}"


def shortened(text: str, most: int) -> str:
    """A text in one line of at most so many characters."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 3]}..."


def span(least: str, most: str) -> str:
    """`30 to 74`; once where both are the same."""
    return least if least == most else f"{least} to {most}"


def money(dollars: float | None) -> str:
    """`$0`, `$0.0006`, `$0.031`, `$0.20`, `$1.20`; `no price` where none is known."""
    if dollars is None:
        return "no price"
    if dollars == 0:
        return "$0"
    if dollars < 0.0001:
        return "under $0.0001"
    rounded = float(f"{dollars:.2g}")
    if rounded >= 1:
        return f"${dollars:,.2f}"
    return f"${rounded:.2f}" if round(rounded, 2) == rounded else f"${rounded:.10f}".rstrip("0")


def money_span(least: float | None, most: float | None) -> str:
    """`$0.18 to $0.64`; `$0.18 or more` where the most is not known."""
    if least is None:
        return money(None)
    return f"{money(least)} or more" if most is None else span(money(least), money(most))


def rounded_up(amount: float, digits: int = 2) -> str:
    """A number that is no smaller, with so many digits that count: `0.65`, as an option takes it."""
    scale = 10 ** (digits - 1 - floor(log10(amount)))
    return f"{ceil(round(amount * scale, 6)) / scale:.10f}".rstrip("0").rstrip(".")


def seconds(duration: float) -> str:
    """`340 ms`, `4.2 s`, `42 s`, `1 min 48 s`, `1 h 04 min`."""
    if duration < 0.9995:
        return f"{1000 * duration:.0f} ms"
    if duration < 9.95:
        return f"{duration:.1f} s"
    whole = round(duration)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600:,} h {whole % 3600 // 60:02d} min"


def tokens(number: int, *, whole: bool = False) -> str:
    """`812 tokens`, `48.2k tokens`, `1.2M tokens`; `48,213 tokens` where all of it is wanted."""
    return count(number, "token") if whole or number < 1000 else f"{thousands(number)} tokens"


def thousands(number: int) -> str:
    """`812`, `48.2k`, `21k`, `1.2M`."""
    if number < 1000:
        return f"{number}"
    scale, unit = (1000, "k") if number < 999_950 else (1_000_000, "M")
    return f"{number / scale:.1f}".removesuffix(".0") + unit


def interval(bounds: tuple[float, float]) -> str:
    """The ends of an interval of a rate in percent: `52 to 83`."""
    from rejoinder.stats.words import rate_range

    return rate_range(bounds)

"""Numbers in words: counts, money, time, tokens, shares and differences, each said in one way."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from math import ceil, floor, log10

from rejoinder.model.figures import Interval


def figure(number: int) -> str:
    """`812`, `48,213`."""
    return f"{number:,}"


def plural(number: float, one: str, many: str = "") -> str:
    """The words for that number; `many` is the plural if it is not `one` with an `s`: `is` or `are`."""
    return one if number == 1 else many or f"{one}s"


def count(number: int, one: str, many: str = "") -> str:
    """`1 case`, `1,200 cases`."""
    return f"{figure(number)} {plural(number, one, many)}"


def listed(words: Sequence[str], joint: str = "and") -> str:
    """`a`, `a and b`, `a, b and c`."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {joint} {words[-1]}"


def capital(words: str) -> str:
    """Words as they begin a sentence."""
    return f"{words[:1].upper()}{words[1:]}"


def shortened(text: str, most: int) -> str:
    """A text in one line of at most `most` characters."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 3]}..."


def beginning(text: str, most: int) -> str:
    """The first `most` characters of a text, and `...` for the rest: what is quoted keeps its white space."""
    return text if len(text) <= most else f"{text[:most]}..."


def both_ends(text: str, most: int) -> str:
    """A long text by its beginning and its end, with a note of what is left out."""
    if len(text) <= most:
        return text
    end = most // 5
    return f"{text[: most - end]} [... {figure(len(text) - most)} characters left out ...] {text[-end:]}"


def span(least: str, most: str) -> str:
    """`30 to 74`; one of them if both are the same."""
    return least if least == most else f"{least} to {most}"


@lru_cache(maxsize=1024)  # of a conversation and of its one turn it is the same sum
def money(dollars: float | None) -> str:
    """`$0`, `$0.0006`, `$0.031`, `$0.20`, `$1.20`; `no price` if it is not known."""
    if dollars is None:
        return "no price"
    return f"under ${_LEAST_SHOWN}" if 0 < dollars < _LEAST_SHOWN else _amount(dollars, _places_of(dollars))


def money_in_markdown(words: str) -> str:
    """`$0.031` as `0.031 USD`, because a dollar sign begins a formula."""
    return re.sub(r"\$([\d.,]+)", r"\1 USD", words)


def money_alike(*amounts: float) -> list[str]:
    """Amounts beside each other, with one number of decimals; different ones read differently: `$0.0123`, `$0.0120`."""
    places = max((_places_of(amount) for amount in amounts if amount), default=2)
    while places < _MOST_PLACES and len({_amount(amount, places) for amount in amounts}) < len(set(amounts)):
        places += 1
    return [_amount(amount, places) for amount in amounts]


_LEAST_SHOWN = 0.0001
"""Dollars; a smaller sum is only said to be smaller."""
_MOST_PLACES = 9


def _places_of(amount: float) -> int:
    """Decimals that show two significant digits, and cents."""
    rounded = float(f"{amount:.2g}")
    if rounded < 10**-_MOST_PLACES:
        return _MOST_PLACES
    return max(2, len(f"{rounded:.{_MOST_PLACES}f}".rstrip("0").partition(".")[2]))


def _amount(dollars: float, places: int) -> str:
    if not dollars:
        return "$0"
    text = f"${dollars:,.{places}f}"
    return text if text.strip("$0.,") else f"under ${10**-places:.{places}f}"


def money_against(amount: float, bound: float) -> tuple[str, str]:
    """An amount and its bound, which read differently if they differ: `$0.12` and `$1.50`, `$0.1201` and `$0.1200`."""
    told, limit = money(amount), money(bound)
    if told == limit and amount != bound:
        told, limit = money_alike(amount, bound)
    return told, limit


def cost_words(whole: float, parts: Sequence[tuple[float, str]]) -> str:
    """A sum with its parts: `$0.00195 ($0.00045 input, $0.00150 by judges)`."""
    if not parts:
        return money(whole)
    told, *each = money_alike(whole, *(cost for cost, _ in parts))
    return f"{told} ({', '.join(f'{cost} {what}' for cost, (_, what) in zip(each, parts, strict=True))})"


def money_span(least: float | None, most: float | None) -> str:
    """`$0.18 to $0.64`; `$0.18 or more` if no limit is known."""
    if least is None:
        return money(None)
    return f"{money(least)} or more" if most is None else span(money(least), money(most))


def price(dollars: float | None) -> str:
    """Dollars per million tokens in a column: at least cents, and every digit of a smaller price; `-` if not known."""
    if dollars is None:
        return "-"
    whole, _, places = f"{dollars:.6f}".rstrip("0").partition(".")
    return f"{whole}.{places:0<2}"


def rounded_up(amount: float, digits: int = 2) -> str:
    """The number rounded up to `digits` significant digits: `0.65`, in the form that an option takes."""
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


def seconds_alike(*durations: float) -> list[str]:
    """Times beside each other, which read differently by three digits of a second if they must: `1.21 s`, `1.24 s`."""
    told = [seconds(duration) for duration in durations]
    differ = len(set(told)) == len(set(durations))
    return told if differ else [number_words(duration, "s") for duration in durations]


def in_seconds(limit: float) -> str:
    """`90 s`, `0.5 s`: a limit, in the unit of the settings and with the author's digits."""
    return f"{limit:g} s"


def clock(duration: float) -> str:
    """`1:12`, `1:04:09`: a time that runs."""
    whole = int(duration)
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02d}"
    return f"{whole // 3600}:{whole % 3600 // 60:02d}:{whole % 60:02d}"


def age(elapsed: float) -> str:
    """`now`, `4 min`, `3 h`, `1 day`."""
    part, word = next((part, word) for most, part, word in _AGES if elapsed < most)
    number = int(max(0.0, elapsed) // part)
    return word if part == 1 else count(number, word) if word == "day" else f"{number} {word}"


def ago(elapsed: float) -> str:
    """`just now`, `4 min ago`."""
    words = age(elapsed)
    return "just now" if words == "now" else f"{words} ago"


_AGES = ((60, 1, "now"), (3600, 60, "min"), (86400, 3600, "h"), (float("inf"), 86400, "day"))
"""Seconds below which a time is counted in a part of so many seconds, and the word of that part."""


def when(time: str | None) -> str:
    """A stored time: `2026-11-15 16:47 UTC`."""
    return f"{time[:10]} {time[11:16]} UTC" if time else ""


def tokens(number: int, *, whole: bool = False) -> str:
    """`812 tokens`, `48.2k tokens`, `1.2M tokens`; `48,213 tokens` if `whole`."""
    return count(number, "token") if whole or number < 1000 else f"{thousands(number)} tokens"


def thousands(number: int) -> str:
    """`812`, `48.2k`, `21k`, `1.2M`."""
    if number < 1000:
        return f"{number}"
    scale, unit = (1000, "k") if number < 999_950 else (1_000_000, "M")
    return f"{number / scale:.1f}".removesuffix(".0") + unit


def percent(rate: float, cases: int, interval: Interval | None = None) -> str:
    """A rate as it is printed: `70%`, `93.4%`. What is not all is never `100%`, and what is not none never `0%`."""
    return percent_to(rate, digits_of(cases, interval))


def percent_to(rate: float, digits: int) -> str:
    """The same with this many decimals, as published tables have them."""
    return f"{share_number(rate, digits)}%"


def digits_of(cases: int, interval: Interval | None) -> int:
    """Decimals of a rate in percent: none below 30 cases, and none if its interval is 10 points wide or more."""
    return int(cases >= 30 and interval is not None and interval[1] - interval[0] < 0.1)


def share_number(rate: float, digits: int) -> str:
    """A share in percent without the sign: `70`, `93.4`; `99.9` for a share just below all."""
    text = f"{100 * rate:.{digits}f}"
    if 0 < rate < 1 and float(text) in (0, 100):
        return "99.9" if rate > 0.5 else "0.1"
    return text


def share(part: float) -> str:
    """A share that is no pass rate, without decimals: `70%`."""
    return f"{share_number(part, 0)}%"


def share_range(interval: Interval) -> str:
    """`52 to 83%`."""
    return f"{rate_range(interval)}%"


def share_words(part: float, interval: Interval | None) -> str:
    """`70% (52 to 83)`."""
    return share(part) if interval is None else f"{share(part)} ({rate_range(interval)})"


def coefficient(value: float) -> str:
    """Kappa, alpha and the like: `0.82`."""
    return f"{value:.2f}"


def chance(probability: float) -> str:
    """`in about 2.5%`, `in under 0.1%`."""
    return "in under 0.1%" if probability < 0.001 else f"in about {100 * probability:.2g}%"


def points(difference: float) -> str:
    """A difference of two rates: `-20 points`, `+1 point`."""
    text = f"{100 * difference:+.0f}"
    number = "0" if float(text) == 0 else text
    return f"{number} {plural(abs(float(number)), 'point')}"


def point_range(interval: Interval, *excluded: float) -> str:
    """`-35 to -5`; `-18 to -0.5`, for what is not 0 must not read as 0, nor as another number that it excludes."""
    return " to ".join(end_words(100 * end, (0.0, *(100 * one for one in excluded)), 0, sign="+") for end in interval)


def rate_range(interval: Interval, digits: int = 0) -> str:
    """`52 to 83`; `87 to 99.93`: only what reaches 0 or 100 reads as that."""
    return " to ".join(end_words(100 * end, (0.0, 100.0), digits) for end in interval)


FINEST = 3
"""Digits behind the point that an end of an interval may get. What is nearer than that is the same."""


def end_words(value: float, excluded: tuple[float, ...], digits: int, sign: str = "") -> str:
    """An end of an interval, with as many more digits as tell it from what it excludes."""
    finer = (one for one in range(digits, FINEST + 1) if value in excluded or round(value, one) not in excluded)
    found = next(finer, digits)
    rounded = round(value, found)
    return "0" if sign and rounded == 0 else f"{rounded:{sign}.{found}f}"


def score_words(score: float) -> str:
    """`0.67`; a score that is neither 0 nor 1 does not read as one of them."""
    if 0 < score < 0.005:
        return "under 0.01"
    return "over 0.99" if 0.995 <= score < 1 else f"{score:.2f}"


def p_words(p_value: float) -> str:
    """`p 0.021`, `p < 0.001`: two digits that count."""
    return f"p {p_number(p_value)}"


def p_number(p_value: float) -> str:
    return "< 0.001" if p_value < 0.001 else f"{p_value:.2g}"


def number_words(value: float, unit: str = "", sign: str = "") -> str:
    """Three digits that count: `1.5`, `0.0123`, `1,240 tokens`."""
    rounded = float(f"{value:.3g}")
    text = f"{rounded:{sign},.0f}" if abs(rounded) >= 100 else f"{rounded:{sign}g}"
    return f"{text} {unit}" if unit else text


def tenths(share: float) -> float:
    """Tenths of a point in a share, without the digits that rounding adds."""
    return round(1000 * share, 6)

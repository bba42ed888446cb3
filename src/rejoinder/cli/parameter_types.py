"""Values of options as people write them: spans of time (90s, 12h, 7d), shards (2/5), dollars (0.50) and least rates
(90%, lower:85%) and repeats (5, auto)."""

from __future__ import annotations

import re
from math import inf, nan
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rejoinder.gates.rules import Rule

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


class Lifetime(click.ParamType[float]):
    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, int | float):
            return float(value)
        found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhdw])", str(value).strip())
        if found is None:
            self.fail(f"{value!r} is not a span of time; write a number and s, m, h, d or w, such as 12h", param, ctx)
        return float(found[1]) * _SECONDS[found[2]]


LIFETIME = Lifetime()


class Shard(click.ParamType[tuple[int, int]]):
    name = "shard"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        if isinstance(value, tuple):
            return value
        found = re.fullmatch(r"(\d{1,6})/(\d{1,6})", str(value).strip())
        if found is None or not 1 <= int(found[1]) <= int(found[2]):
            self.fail(f"{value!r} is not a shard; write for example 2/5 for the second of five", param, ctx)
        return int(found[1]), int(found[2])


SHARD = Shard()


class Dollars(click.ParamType[float]):
    name = "float"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            amount = float(value)
        except ValueError:
            amount = nan
        if not 0 < amount < inf:
            self.fail(f"{value!r} is not an amount; write dollars as a number above 0, such as 0.50", param, ctx)
        return amount


DOLLARS = Dollars()


class Repeat(click.ParamType[int]):
    """A number; 0 for `auto`."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int) or value == "auto":
            return value if isinstance(value, int) else AUTO
        if not re.fullmatch(r"[0-9]{1,9}", str(value)) or int(value) < 1:
            self.fail(f"{value!r} is not a number of repeats; write 1 or more, or auto", param, ctx)
        return int(value)


AUTO = 0
REPEAT = Repeat()


class FailUnder(click.ParamType["Rule"]):
    name = "rate"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Rule:
        from rejoinder.gates.rules import read_fail_under

        rule = read_fail_under(str(value))
        if rule is None:
            self.fail(f"{value!r} is not a least rate; write for example 90% or lower:85%", param, ctx)
        return rule


FAIL_UNDER = FailUnder()

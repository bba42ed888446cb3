"""How many lines a diff changes, whatever the lines themselves look like."""

from __future__ import annotations

from difflib import SequenceMatcher, unified_diff
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rejoinder.checks.base import Context
from rejoinder.checks.registry import grade_plain
from rejoinder.model import Reply, Verdict, WorkspaceDiff, count_lines
from rejoinder.views.deeds import deeds
from tests.kit import bounded

LINES = st.builds(
    "{}{}\n".format,
    st.sampled_from(
        ["", "-", "+", "@", " ", "\\", "--", "++", "-- a/x", "++ b/x", "@@ -1,3 +1,3 @@", "--- a/x", "\r", "\f"]
    ),
    st.text("ab-+@ \r\f\x85\u2028", max_size=3),
)
TEXTS = st.lists(LINES, max_size=12)


def diff_of(old: list[str], new: list[str], name: str = "query.sql") -> str:
    lines = unified_diff(old, new, f"a/{name}", f"b/{name}")
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def changed_between(old: list[str], new: list[str]) -> tuple[int, int]:
    """Lines added and removed, as difflib finds them."""
    blocks = [code for code in SequenceMatcher(None, old, new).get_opcodes() if code[0] != "equal"]
    return sum(last - first for *_, first, last in blocks), sum(last - first for _, first, last, *_ in blocks)


@bounded(300)
@given(pairs=st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=3), ends=st.booleans())
def test_lines_are_counted_as_they_are(pairs: list[tuple[list[str], list[str]]], ends: bool) -> None:
    if ends:
        pairs = [(old, [*new, "no end"]) for old, new in pairs]
    counted = count_lines("".join(diff_of(old, new) for old, new in pairs))
    expected = [changed_between(old, new) for old, new in pairs]
    assert (counted.added, counted.removed) == tuple(map(sum, zip(*expected, strict=True)))
    assert set(counted.headers) <= {"--- a/query.sql", "+++ b/query.sql"}


def graded(diff: str, **wanted: Any) -> Verdict:
    context = Context(None, Reply("", workspace_diff=diff), 1, None)  # type: ignore[arg-type] - it looks at no more
    verdicts = grade_plain((WorkspaceDiff(**wanted),), context)
    assert verdicts is not None
    return verdicts[0]


def test_lines_that_look_like_headers_count() -> None:
    diff = diff_of([f"-- comment {n}\n" for n in range(9)], ["++ y\n"])
    verdict = graded(diff, max_lines=5)
    assert verdict.state == "failed" and verdict.reason == "10 lines were changed; the maximum is 5"
    assert graded(diff, min_lines=10, max_lines=10).state == "passed"
    shown = deeds((), diff)
    assert shown == ["Workspace: 1 file changed (query.sql), 1 line added, 9 removed"]


def test_remarks_are_no_lines() -> None:
    diff = "Binary file +a.bin changed\n" + diff_of([], ["-- a/other\n"]) + "Lines of -b (added) are left out\n"
    counted = count_lines(diff)
    assert (counted.added, counted.removed, len(counted.headers)) == (1, 0, 4)
    assert count_lines("") == count_lines("\n")
    [line] = deeds((), diff)
    assert line == "Workspace: 3 files changed (+a.bin, -b, query.sql), 1 line added, 0 removed"

"""The index of a run: a list's pages, counts, places and searches agree with a plain walk through the results."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from rejoinder.model import Result
from rejoinder.report.page.pairs import Sides
from rejoinder.run_files import RunDamaged
from rejoinder.server import row_store, run_index
from rejoinder.server.errors import ApiError
from rejoinder.server.pair_index import PairIndex
from rejoinder.server.row_store import Address, Query
from rejoinder.server.run_index import ORDER, RunIndex
from rejoinder.views.rows import Frame, row_of
from tests.kit import bounded
from tests.report.courses import LOST, said
from tests.report.exports import result, turn


def passed(name: str, reply: str = "Bern", **more: object) -> Result:
    return result(name, said(1, "What is the capital?", reply, "bern"), **more)


def failed(name: str, reply: str = "Zurich", **more: object) -> Result:
    return result(name, said(1, "What is the capital?", reply, "bern", passed=False), **{**LOST, **more})


def write(path: Path, *results: Result) -> Path:
    path.write_bytes(b"".join(msgspec.json.encode(one) + b"\n" for one in results))
    return path


def add(path: Path, *results: Result) -> None:
    with path.open("ab") as stream:
        stream.writelines(msgspec.json.encode(one) + b"\n" for one in results)


def made(folder: Path, *results: Result) -> RunIndex:
    index = RunIndex(write(folder / "results.jsonl", *results), folder / "index.sqlite", Frame())
    index.grow()
    return index


def names(index: RunIndex, **query: str) -> list[str]:
    return [row.case for row in index.find(Query(**query), 0, 100).rows]


def address_of(one: Result) -> Address:
    return Address(one.suite, one.id, one.target, one.variant, one.trial)


def test_failures_come_first_and_then_the_order_of_the_results(tmp_path: Path) -> None:
    index = made(tmp_path, passed("a"), failed("b"), passed("c"), failed("d"))
    assert names(index) == ["b", "d", "a", "c"]


def test_pills_count_under_the_other_filters_and_not_under_their_own(tmp_path: Path) -> None:
    index = made(tmp_path, passed("a", target="x"), failed("b", target="x"), failed("c", target="y"))
    found = index.find(Query(show="first", target="x"), 0, 10)
    assert [row.case for row in found.rows] == ["a"]
    assert found.total == 1
    assert found.counts == {
        "all": 2,
        "failed": 1,
        "error": 0,
        "recovered": 0,
        "first": 1,
        "skipped": 0,
        "different": 0,
        "again": 0,
    }


def test_an_unknown_pill_or_filter_finds_what_it_says(tmp_path: Path) -> None:
    index = made(tmp_path, passed("a"), failed("b", variant="short"))
    assert names(index, target="nobody-has-this") == []
    assert names(index, variant="short") == ["b"]
    assert names(index, variant="-") == ["a"]
    assert index.find(Query(show="'; drop table rows"), 0, 10).total == 0


def test_a_tag_is_found_whole(tmp_path: Path) -> None:
    index = made(tmp_path, passed("a", tags=("billing",)), passed("b", tags=("bill", "x")))
    assert names(index, tag="bill") == ["b"]
    assert names(index, tag="x") == ["b"]


@pytest.mark.parametrize("words", ["ZÜRICH", 'say "hello"', "two\nlines", "per cent % and _"])
def test_transcripts_are_searched_as_text_in_any_letter_case(tmp_path: Path, words: str) -> None:
    index = made(tmp_path, failed("a", f"In {words.lower()}, I think"), failed("b", "Somewhere"))
    assert names(index, q=words) == ["a"]
    assert names(index, q="somewhere") == ["b"]


def test_names_of_fields_are_not_found_as_words_of_a_transcript(tmp_path: Path) -> None:
    assert names(made(tmp_path, passed("a")), q="duration_s") == []


def test_a_search_goes_on_in_what_was_added_since(tmp_path: Path) -> None:
    index = made(tmp_path, failed("a", "a lighthouse"))
    assert names(index, q="lighthouse") == ["a"]
    add(index.source, failed("b", "two lighthouses"))
    assert index.is_of(index.source)
    index.grow()
    assert names(index, q="lighthouse") == ["a", "b"]


def test_old_searches_are_forgotten_and_found_again(tmp_path: Path) -> None:
    index = made(tmp_path, failed("a", "alpha"), failed("b", "beta"))
    for number in range(3 * row_store.MOST_SEARCHES):
        assert names(index, q=f"word {number}") == []
    assert names(index, q="alpha") == ["a"]


def test_one_conversation_is_read_by_its_address(tmp_path: Path) -> None:
    one, other = failed("b", "first trial", trial=1), failed("b", "second trial", trial=2)
    index = made(tmp_path, passed("a"), one, other)
    assert index.result(address_of(other)) == other
    assert index.result(Address("other", "b", one.target, None, 1)) is None
    assert [row.trial for row in index.siblings(one.suite, "b")] == [1, 2]


def test_a_line_that_is_still_being_written_waits_for_its_end(tmp_path: Path) -> None:
    index = made(tmp_path, passed("a"))
    line = msgspec.json.encode(failed("b")) + b"\n"
    with index.source.open("ab") as stream:
        stream.write(line[:100])
    assert index.grow().rows == 1
    with index.source.open("ab") as stream:
        stream.write(line[100:])
    assert index.grow().rows == 2
    assert [row.case for row in index.after(1)] == ["b"]


def test_a_file_that_was_written_anew_is_another_one(tmp_path: Path) -> None:
    index = made(tmp_path, passed("a"), passed("b"))
    assert index.is_of(index.source)
    write(tmp_path / "new", passed("b"), passed("a")).replace(index.source)
    assert not index.is_of(index.source)


def test_a_file_that_was_cut_is_another_one(tmp_path: Path) -> None:
    index = made(tmp_path, passed("a"), passed("b"))
    index.source.write_bytes(index.source.read_bytes()[:-5])
    assert not index.is_of(index.source)


def test_a_file_that_was_overwritten_by_a_longer_one_is_another_one(tmp_path: Path) -> None:
    index = made(tmp_path, passed("a"), passed("b"))
    write(index.source, *(failed(f"other-{number}") for number in range(9)))
    assert not index.is_of(index.source)


@pytest.mark.parametrize("line", [b"{}", b"nonsense", b"[" * 100_000, b"\xff\xfe", b"", b'{"suite": 1}'])
def test_a_line_that_is_no_result_ends_the_walk_and_is_named(tmp_path: Path, line: bytes) -> None:
    path = write(tmp_path / "results.jsonl", passed("a"))
    with path.open("ab") as stream:
        stream.write(line + b"\n")
    index = RunIndex(path, tmp_path / "index.sqlite", Frame())
    state = index.grow()
    assert state.done
    assert state.damage is not None
    assert state.damage.startswith("line 2: ")
    assert names(index) == ["a"]


def test_a_line_that_is_too_long_is_left_out_and_its_bytes_are_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_index, "LONGEST", 10_000)
    index = made(tmp_path, passed("a"), failed("b", "x" * 3_000_000), passed("c"))
    assert (index.state.rows, index.state.left_out, index.state.damage) == (2, 1, None)
    assert names(index) == ["a", "c"]
    add(index.source, passed("d"))
    assert index.is_of(index.source)
    index.grow()
    assert names(index) == ["a", "c", "d"]


def test_lines_beyond_what_a_run_can_have_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_index, "MOST", 3)
    index = made(tmp_path, *(passed(str(number)) for number in range(10)))
    assert (index.state.rows, index.state.done) == (3, True)
    assert index.state.left_out > 0


def test_a_walk_can_be_broken_off_and_taken_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_store, "BATCH", 2)
    path = write(tmp_path / "results.jsonl", *(passed(str(number)) for number in range(7)))
    index = RunIndex(path, tmp_path / "index.sqlite", Frame())
    assert index.grow(0) == run_index.State(2, done=False)
    assert len(names(index)) == 2
    assert index.grow() == run_index.State(7, done=True)


def test_a_conversation_that_is_no_longer_there_is_damage(tmp_path: Path) -> None:
    index = made(tmp_path, passed("a"))
    index.source.write_bytes(b"x" * 5_000)
    with pytest.raises(RunDamaged, match="it was changed"):
        index.result(address_of(passed("a")))


def test_links_are_not_followed(tmp_path: Path) -> None:
    write(tmp_path / "elsewhere", passed("a"))
    (tmp_path / "results.jsonl").symlink_to(tmp_path / "elsewhere")
    index = RunIndex(tmp_path / "results.jsonl", tmp_path / "index.sqlite", Frame())
    assert index.grow().damage == "it is a link"


def test_a_closed_index_leaves_nothing(tmp_path: Path) -> None:
    index = made(tmp_path, passed("a"))
    index.close()
    with pytest.raises(ApiError, match="load the page again"):
        index.find(Query(), 0, 10)
    assert [path.name for path in tmp_path.iterdir()] == ["results.jsonl"]


def test_a_search_shows_what_it_found(tmp_path: Path) -> None:
    reply = f"{'First words. ' * 20}You can\n  hand it to the Courier at your door. {'Last words. ' * 20}"
    index = made(tmp_path, failed("parcel", reply), failed("courier", "no"))
    hits = {row.case: row.hit for row in index.find(Query(q="the courier at"), 0, 10).rows}
    assert list(hits) == ["parcel"]
    assert "hand it to the Courier at your door" in hits["parcel"]
    assert len(hits["parcel"]) <= row_store.LONGEST_HIT + 4
    assert {row.hit for row in index.find(Query(q="parcel"), 0, 10).rows} == {""}, "its name has it"


words = st.sampled_from(["bern", "zurich", "basel rhein", "Genève"])


def some_result(good: bool, target: str, trial: int, words: str, tags: tuple[str, ...], again: bool) -> Result:
    made = (passed if good else failed)(f"case-{trial}", words, target=target, trial=trial, tags=tags)
    return structs.replace(made, turns=(*made.turns, turn(f"{words} ", 2, depth=1))) if again else made


drawn = st.builds(
    some_result,
    st.booleans(),
    st.sampled_from(["x", "y"]),
    st.integers(1, 3),
    words,
    st.sampled_from([(), ("t",), ("t", "u")]),
    st.booleans(),
)
queries = st.builds(
    Query,
    st.sampled_from(["", "different", "again", *ORDER]),
    st.sampled_from(["", "x", "y", "z"]),
    st.sampled_from(["", "-"]),
    st.sampled_from(["", "t", "u"]),
    st.sampled_from(["", "ber", "RHEIN", "genè", "ca", "case-2"]),
)


@bounded(40)
@given(st.lists(drawn, max_size=12), queries)
def test_lists_counts_and_places_agree_with_a_plain_walk(
    tmp_path_factory: pytest.TempPathFactory, results: list[Result], query: Query
) -> None:
    index = made(tmp_path_factory.mktemp("run"), *results)

    def holds(one: Result) -> bool:
        row = row_of(one, 0)
        texts = [one.title, one.id, one.suite, one.target, *one.tags, row.why or ""]
        if len(query.q) >= row_store.SHORTEST_SEARCH:
            texts += [text for turn in one.turns for text in (turn.prompt, turn.response or "")]
        return (
            query.target in ("", one.target)
            and (not query.tag or query.tag in one.tags)
            and (not query.q or any(query.q.casefold() in text.casefold() for text in texts))
        )

    rows = [row_of(one, at) for at, one in enumerate(results) if holds(one)]
    counted = Counter(row.outcome for row in rows)
    ends: dict[str, set[bool]] = {}
    for one in results:
        ends.setdefault(one.id, set()).add(one.passed)
    different = [row for row in rows if len(ends[row.case]) == 2]
    again = [row for row in rows if row.same_as is not None]
    listed = {"different": different, "again": again}
    chosen = listed.get(query.show, [row for row in rows if query.show in ("", row.outcome)])
    shown = sorted(chosen, key=lambda row: ORDER.index(row.outcome))
    found = index.find(query, 0, 100)
    assert [structs.replace(row, hit="") for row in found.rows] == shown
    assert all(row_store.folded(query.q) in row_store.folded(row.hit) for row in found.rows if row.hit)
    assert found.total == len(shown)
    assert found.counts == {
        "all": len(rows),
        **{name: counted[name] for name in ORDER},
        "different": len(different),
        "again": len(again),
    }
    assert [structs.replace(row, hit="") for row in index.find(query, 1, 2).rows] == shown[1:3]
    addresses = [Address(row.suite, row.case, row.target, row.variant, row.trial) for row in shown]
    for place, address in enumerate(addresses):
        if addresses.count(address) == 1 and sum(address_of(one) == address for one in results) == 1:
            assert index.place(address, query) == place
    assert index.place(Address("no", "such", "case", None, 1), query) == -1


def test_what_only_the_first_run_has_keeps_its_name_unless_the_second_has_another_case_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_store, "BATCH", 1)
    a = write(tmp_path / "a.jsonl", *(passed("gone", trial=trial) for trial in (1, 2, 3)), passed("other"))
    b = write(tmp_path / "b.jsonl", passed("other"))
    index = PairIndex(b, a, tmp_path / "index.sqlite", Sides())
    index.fill(lambda one: ("a", one.id, one.trial), lambda one: ("b", one.id, one.trial))
    rows = index.find(Query(), 0, 10).rows
    suite = passed("other").suite
    assert [(row.case, row.suite) for row in rows] == [
        ("other", suite),
        *[("gone", suite)] * 3,
        ("other", f"{suite} (A)"),
    ]

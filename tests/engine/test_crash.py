"""What is left when a run dies: real processes, real kills, and a server that counts what it is asked.

The rules, for a kill at any moment: a reply that was recorded is never asked for again and never lost; only calls that
were under way may be made twice, and the report says how many; after `resume` the results are those of a run that
nobody disturbed.
"""

from __future__ import annotations

import json
import re
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

from rejoinder.runs.crash_points import POINTS
from tests.kit import KILLED, Ended, comparable, spec
from tests.labs.crash_lab import (
    CASES,
    TRIALS,
    WORKERS,
    Audit,
    Call,
    CountingServer,
    Heard,
    Lab,
    check_histories,
    expected_messages,
    kill_at_random,
    make_case,
    make_suite,
    read_journal,
    reply_text,
    right_turn,
)

pytestmark = pytest.mark.slow

LATER_HITS = {
    "asked.written": (2, 75, 180),
    "told.queued": (2, 60, 190),
    "batch.before_write": (2, 7),
    "batch.torn": (2, 7),
    "batch.written": (2, 7),
    "batch.synced": (2, 7),
    "told.synced": (2, 60, 190),
    "conversation.finished": (2, 40, CASES * TRIALS),
}
"""Points that are passed more than once in a run, and later passings to die at."""

CHUNKS, KILLS_A_CHUNK, KILLS_A_RUN = 10, 10, 5


class Undisturbed(NamedTuple):
    """A run that was not disturbed."""

    document: dict[str, Any]
    calls: list[Call]
    sizes: dict[str, int]
    """The bytes of each file of its folder."""


@pytest.fixture(scope="module")
def server() -> Iterator[CountingServer]:
    server = CountingServer()
    yield server
    server.close()


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, server: CountingServer) -> Lab:
    return Lab(tmp_path_factory.mktemp("crash"), server)


@pytest.fixture(scope="module")
def undisturbed(project: Lab, server: CountingServer) -> Undisturbed:
    project.forget()
    project.write("evals.yaml", make_suite())  # a test before may have had another one
    with server.holding(lambda _: len(server.heard) < WORKERS):  # until all workers have begun
        document = project.run().document
    assert max(Counter(server.calls()).values()) == 1
    assert server.most_at_once > WORKERS // 2  # all of them, where the machine is quick enough
    assert {result["succeeded_on_turn"] for result in document["results"]} == {1, 2, 3, 4, None}
    check_histories(server.heard)
    sizes = {path.name: path.stat().st_size for path in project.run_folder.iterdir()}
    assert sizes["cases.jsonl"] < 0.4 * sizes["journal.jsonl"] < 0.4 * sizes["results.jsonl"]
    return Undisturbed(document, server.calls(), sizes)


@pytest.fixture
def lab(project: Lab) -> Iterator[Lab]:
    """The project as it is at first, without any run."""
    project.forget()
    project.write("evals.yaml", make_suite())
    yield project
    project.server.forget()


@pytest.fixture
def audit(lab: Lab, undisturbed: Undisturbed) -> Audit:
    lab.forget()
    return Audit(lab, undisturbed.document, undisturbed.calls)


def is_clean(ended: Ended) -> bool:
    """A user is told what happened, and never shown the inside of the program."""
    return bool(ended.err.strip()) and "Traceback" not in ended.err and "Exception" not in ended.err


# Kills


def _named_moments() -> list[Any]:
    """Every point when it is first passed, which `make test` runs, and when it is passed again."""
    moments = [(f"{point}:{hit}", hit) for point in POINTS for hit in (1, *LATER_HITS.get(point, ()))]
    return [pytest.param(moment, marks=[pytest.mark.long] if hit > 1 else []) for moment, hit in moments]


@spec("R64", "R65")
@pytest.mark.parametrize("moment", _named_moments())
def test_a_run_survives_its_death_at_every_named_point(lab: Lab, audit: Audit, moment: str) -> None:
    first = lab.start(kill_at=moment)
    assert first.end().code == KILLED
    audit.died(first)
    if moment.endswith(":1"):
        second = lab.spawn("resume", "last", "--format", "json", kill_at=moment)
        if second.end().code == KILLED:  # a resumed run need not pass all points again
            audit.died(second)
    audit.finished(lab.resume().document)


@spec("R64", "R65")
@pytest.mark.parametrize("chunk", range(CHUNKS))
@pytest.mark.every(4)
def test_a_run_survives_its_death_at_random_moments(lab: Lab, undisturbed: Undisturbed, chunk: int) -> None:
    lab.write("evals.yaml", make_suite(blocking=chunk % 3 == 2))
    random = Random(chunk)
    left = KILLS_A_CHUNK
    while left:
        left -= kill_at_random(lab, undisturbed.document, undisturbed.calls, random, min(left, KILLS_A_RUN)).kills


@spec("R64")
def test_a_conversation_killed_after_turn_two_of_four_makes_four_calls_in_all(lab: Lab) -> None:
    case = next(f"long-{number}" for number in range(99) if right_turn(Call(f"long-{number}", "counter", 1, 1)) == 4)
    lab.write("evals.yaml", make_suite([make_case(case)]))
    assert lab.run(trials=1, kill_at="asked.written:3").code == KILLED
    assert [call.turn for call in lab.server.calls()] == [1, 2]
    document = lab.resume().document
    assert [call.turn for call in lab.server.calls()] == [1, 2, 3, 4]
    check_histories(lab.server.heard)
    [result] = document["results"]
    assert (result["status"], result["succeeded_on_turn"], len(result["turns"])) == ("passed", 4, 4)


def test_a_call_that_was_under_way_is_in_doubt_and_said_to_be(lab: Lab) -> None:
    case = next(f"long-{number}" for number in range(99) if right_turn(Call(f"long-{number}", "counter", 1, 1)) == 4)
    lab.write("evals.yaml", make_suite([make_case(case)]))
    with lab.server.holding(lambda call: call.turn == 3):
        life = lab.start(trials=1)
        assert lab.server.wait_for(3, life)
        assert life.kill().code == KILLED
    ended = lab.command("resume", "last")
    assert "1 call cut off before the answer was recorded" in ended.out
    assert [call.turn for call in lab.server.calls()] == [1, 2, 3, 3, 4]


def test_every_call_that_reached_the_server_is_in_the_journal_when_the_process_dies(lab: Lab) -> None:
    """Else it would be made again without a word."""
    with lab.server.holding():
        life = lab.start()
        assert lab.server.wait_for(WORKERS, life)
        life.kill()
    assert set(lab.server.calls()) == lab.journal().doubtful


@spec("P26")
def test_a_run_in_which_calls_fail_survives_its_death(lab: Lab) -> None:
    """A failure is an answer too: it is recorded and not asked for again."""

    def refuse(call: Call, _times: int) -> dict[str, Any] | None:
        return {"error": "out of words"} if call.turn == 3 and call.trial == 2 else None

    lab.server.refuse = refuse
    document, calls = lab.run().document, lab.server.calls()
    assert document["summary"]["errors"] > 5
    lab.forget()
    lab.server.refuse = refuse
    audit = Audit(lab, document, calls)
    life = lab.start(kill_at="told.queued:190")
    assert life.end().code == KILLED
    audit.died(life)
    audit.finished(lab.resume().document)


def test_what_a_run_was_told_to_include_is_there_after_a_resume(lab: Lab) -> None:
    document = lab.run("--include", "messages").document
    lab.forget()
    assert lab.run("--include", "messages", kill_at="told.queued:100").code == KILLED
    assert comparable(lab.resume().document) == comparable(document)


def test_a_finished_run_that_is_resumed_asks_nothing_and_stays_the_same(lab: Lab, audit: Audit) -> None:
    lab.run()
    asked = len(lab.server.heard)
    audit.finished(lab.resume().document)
    assert len(lab.server.heard) == asked


@pytest.mark.parametrize("left", [(), ("lock",), ("lock", "suite.json.draft"), ("lock", "suite.json", "cases.jsonl")])
@pytest.mark.parametrize("command", ["resume", "show"])
@pytest.mark.every(3)
def test_a_folder_of_a_run_that_died_before_it_began_is_refused_in_plain_words(
    lab: Lab, left: tuple[str, ...], command: str
) -> None:
    assert lab.run(kill_at="run.created:1").code == KILLED
    for file in lab.run_folder.iterdir():
        if file.name not in left:
            file.unlink()
    if "suite.json.draft" in left:
        (lab.run_folder / "suite.json.draft").write_bytes(b'{"options"')
    ended = lab.command(command)
    assert (ended.code, lab.server.heard) == (2, [])
    assert is_clean(ended), ended.err
    assert lab.command("runs").code == 0


# A damaged journal


def _small_suite() -> dict[str, Any]:
    return make_suite([make_case("case-01"), make_case("case-02")], blocking=True)


@pytest.fixture(scope="module")
def killed(project: Lab, undisturbed: Undisturbed, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the folder of a small run that was killed, and whose journal ends with a reply."""
    project.forget()
    project.write("evals.yaml", _small_suite())
    assert project.run(kill_at="told.queued:9", trials=2).code == KILLED
    copy = tmp_path_factory.mktemp("killed") / project.run_folder.name
    journal = project.run_folder / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    last = max(number for number, line in enumerate(lines) if b'"type":"told"' in line)
    journal.write_bytes(b"".join(lines[: last + 1]))
    shutil.copytree(project.run_folder, copy)
    return copy


PARTS = 8


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.every(2)
def test_a_journal_may_be_cut_at_every_byte_of_its_last_record(lab: Lab, killed: Path, part: int) -> None:
    lab.write("evals.yaml", _small_suite())
    document = comparable(lab.run(trials=2).document)
    whole = (killed / "journal.jsonl").read_bytes()
    record = whole.splitlines(keepends=True)[-1]
    for cut in range(len(whole) - len(record), len(whole) + 1)[part::PARTS]:
        lab.forget()
        shutil.copytree(killed, lab.folder / ".rejoinder" / "runs" / killed.name)
        (lab.run_folder / "journal.jsonl").write_bytes(whole[:cut])
        before = read_journal(whole[:cut])
        resumed = in_process(lab, "resume", "last", "--format", "json")
        assert comparable(resumed) == document, cut
        assert not before.told & set(lab.server.calls()), cut
        assert resumed["run"]["in_doubt"] == before.in_doubt, cut
        assert len(lab.journal().told) == len(set(lab.server.calls()) | before.told), cut


def in_process(lab: Lab, *arguments: str) -> dict[str, Any]:
    """The document of a command that is run in this process, where hundreds of runs are needed."""
    from click.testing import CliRunner

    from rejoinder.cli.app import cli

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(lab.folder)
        patch.setattr(sys, "path", list(sys.path))
        result = CliRunner().invoke(cli, list(arguments))
    sys.modules.pop("lab_answers", None)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return json.loads(result.stdout)


@pytest.mark.parametrize("line", [1, 5])
def test_a_journal_that_is_damaged_elsewhere_is_refused_with_the_line(lab: Lab, killed: Path, line: int) -> None:
    shutil.copytree(killed, lab.folder / ".rejoinder" / "runs" / killed.name)
    journal = lab.run_folder / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    lines[line - 1] = lines[line - 1][:20] + b"\n"
    journal.write_bytes(b"".join(lines))
    ended = lab.resume()
    assert ended.code == 3
    assert is_clean(ended)
    assert f"line {line} of {journal} is damaged" in ended.err
    assert journal.read_bytes() == b"".join(lines)


# A full disk


@pytest.mark.parametrize("share", [0.45, 0.6, 0.9])
def test_a_full_disk_ends_the_run_in_plain_words_and_loses_nothing(
    lab: Lab, audit: Audit, undisturbed: Undisturbed, share: float
) -> None:
    life = lab.start(file_limit=int(share * undisturbed.sizes["journal.jsonl"]))
    ended = life.end()
    assert ended.code == 3, ended.err
    assert is_clean(ended), ended.err
    assert str(lab.run_folder) in ended.err
    assert "rejoinder resume" in ended.err
    assert len(audit.died(life).told) > 20
    audit.finished(lab.resume().document)


def test_a_disk_that_is_full_when_results_are_written_loses_nothing(
    lab: Lab, audit: Audit, undisturbed: Undisturbed
) -> None:
    """The journal fits, and what is derived from it does not."""
    life = lab.start(file_limit=(undisturbed.sizes["journal.jsonl"] + undisturbed.sizes["results.jsonl"]) // 2)
    ended = life.end()
    assert ended.code == 3, ended.err
    assert is_clean(ended), ended.err
    assert "rejoinder resume" in ended.err
    audit.died(life)
    audit.finished(lab.resume().document)


@pytest.mark.parametrize("file", [None, "suite.json", "cases.jsonl"])
def test_a_disk_that_is_full_before_anything_is_sent_is_said_in_plain_words(
    lab: Lab, undisturbed: Undisturbed, file: str | None
) -> None:
    ended = lab.run(file_limit=undisturbed.sizes[file] // 2 if file else 0)
    assert ended.code in (2, 3), ended.err
    assert is_clean(ended), ended.err
    assert not lab.server.heard


# An edited suite


@spec("R64")
def test_a_suite_edited_between_crash_and_resume_keeps_what_is_unchanged(lab: Lab) -> None:
    cases = {f"case-{number:02}": make_case(f"case-{number:02}") for number in range(CASES)}
    edited = json.loads(json.dumps(cases))
    edited["case-02"]["prompt"] = "Which word did I mean by case-02?"
    del edited["case-03"]
    edited["case-04"]["checks"][0] = {"contains": "turn 1"}
    edited["case-05"]["checks"][1]["prompt"] = "Think of case-05 once more."
    edited["case-90"] = make_case("case-90")
    after = make_suite([edited["case-90"], *(case for name, case in edited.items() if name != "case-90")])

    lab.write("evals.yaml", after)
    fresh, fresh_calls = lab.run().document, set(lab.server.calls())
    lab.forget()
    lab.write("evals.yaml", make_suite(cases.values()))
    life = lab.start(kill_at="told.queued:150")
    assert life.end().code == KILLED
    told = lab.journal().told
    lab.write("evals.yaml", after)
    resumed = lab.resume().document

    for part in ("results", "summary"):
        assert comparable(resumed)[part] == comparable(fresh)[part]
    assert resumed["run"]["planned"] == fresh["run"]["planned"]
    again = lab.server.calls(life.number + 1)
    changed = {call for call in fresh_calls if call.case == "case-02" or (call.case == "case-05" and call.turn > 1)}
    assert set(again) == fresh_calls - (told - changed)
    assert len(again) == len(set(again))


@spec("R64")
def test_a_suite_that_is_gone_is_taken_from_the_run(lab: Lab, audit: Audit) -> None:
    life = lab.start(kill_at="told.queued:120")
    assert life.end().code == KILLED
    audit.died(life)
    (lab.folder / "evals.yaml").unlink()
    audit.finished(lab.resume().document)


# One process at a time


def test_of_two_processes_that_resume_a_run_the_second_is_refused(lab: Lab, audit: Audit) -> None:
    first = lab.start(kill_at="told.queued:50")
    assert first.end().code == KILLED
    audit.died(first)
    with lab.server.holding():
        second = lab.spawn("resume", "last", "--format", "json")
        assert lab.server.wait_for(1, second)
        refused = lab.resume()
        assert (refused.code, refused.out) == (2, "")
        assert is_clean(refused)
        assert f"run {lab.run_folder.name} is open in another process" in refused.err
        assert not lab.server.calls(second.number + 1)
        assert lab.command("runs", "prune", "--keep", "0", "--yes").code == 0
        assert lab.run_folder.exists()
    audit.finished(second.end().document)


def test_the_lock_of_a_killed_process_is_no_hindrance(lab: Lab, audit: Audit) -> None:
    with lab.server.holding():
        life = lab.start()
        assert lab.server.wait_for(WORKERS, life)
        assert lab.resume().code == 2
        life.kill()
    audit.died(life)
    audit.finished(lab.resume().document)


# Showing what there is


def test_show_derives_what_a_killed_run_had_finished_and_asks_nothing(
    lab: Lab, audit: Audit, undisturbed: Undisturbed
) -> None:
    life = lab.start(kill_at="told.queued:190")
    assert life.end().code == KILLED
    asked = len(lab.server.heard)
    journal = (lab.run_folder / "journal.jsonl").read_bytes()
    shown = lab.show().document
    assert len(lab.server.heard) == asked
    assert (lab.run_folder / "journal.jsonl").read_bytes() == journal
    assert shown["run"]["status"] == "killed"
    assert shown["run"]["in_doubt"] == read_journal(journal).in_doubt
    finished, expected = comparable(shown)["results"], comparable(undisturbed.document)["results"]
    assert 0 < len(finished) < len(expected)
    assert [result for result in expected if result in finished] == finished
    assert shown["summary"]["unfinished"] == len(expected) - len(finished)
    audit.died(life)
    audit.finished(lab.resume().document)


def test_show_and_runs_say_the_same_of_a_resumed_run(lab: Lab, audit: Audit) -> None:
    life = lab.start(kill_at="told.queued:90")
    assert life.end().code == KILLED
    audit.died(life)
    [row] = json.loads(lab.command("runs", "--format", "json").out)
    assert row["status"] == "killed"
    resumed = lab.resume().document
    assert lab.show().document == resumed
    [row] = json.loads(lab.command("runs", "--format", "json").out)
    assert (row["status"], row["summary"]) == ("completed", resumed["summary"])


# Ctrl-C


def test_one_interrupt_finishes_what_is_under_way(lab: Lab, audit: Audit) -> None:
    with lab.server.holding(lambda call: call.turn == 2):
        life = lab.start(form="text")
        assert lab.server.wait_for(WORKERS + 5, life)
        life.interrupt()
        life.wait_until_it_says("finishing the conversations in progress")
    ended = life.end()
    assert ended.code == 130
    assert f"rejoinder resume {lab.run_folder.name}" in ended.out + ended.err
    shown = lab.show().document
    assert (shown["run"]["status"], shown["run"]["in_doubt"]) == ("interrupted", 0)
    assert WORKERS <= len(shown["results"]) < CASES * TRIALS
    assert {result["status"] for result in shown["results"]} <= {"passed", "failed"}
    assert not audit.died(life).doubtful
    document = lab.resume().document
    audit.finished(document)
    assert (audit.repeated, document["run"]["in_doubt"]) == (0, 0)


@pytest.mark.parametrize("blocking", [False, True])
def test_two_interrupts_stop_at_once_and_lose_nothing(lab: Lab, audit: Audit, blocking: bool) -> None:
    lab.write("evals.yaml", make_suite(blocking=blocking))
    with lab.server.holding(lambda call: call.turn == 2):
        life = lab.start(form="text")
        assert lab.server.wait_for(WORKERS + 5, life)
        life.interrupt()
        life.wait_until_it_says("finishing the conversations in progress")
        life.interrupt()
        ended = life.end(patience_s=10)  # while nothing is answered
    assert ended.code == 130
    assert "Traceback" not in ended.err
    assert f"rejoinder resume {lab.run_folder.name}" in ended.out + ended.err
    journal = audit.died(life)
    assert journal.told
    assert journal.doubtful
    assert lab.show().document["run"]["in_doubt"] == journal.in_doubt
    audit.finished(lab.resume().document)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGHUP])
def test_the_end_of_a_job_stops_at_once_and_loses_nothing(lab: Lab, audit: Audit, how: signal.Signals) -> None:
    with lab.server.holding(lambda call: call.turn == 2):
        life = lab.start(form="text")
        assert lab.server.wait_for(WORKERS + 5, life)
        life.process.send_signal(how)
        ended = life.end(patience_s=10)
    assert (ended.code, "Traceback" in ended.err) == (130, False)
    assert f"rejoinder resume {lab.run_folder.name}" in ended.out + ended.err
    assert audit.died(life).told
    audit.finished(lab.resume().document)


def test_an_interrupt_before_anything_is_sent_leaves_nothing_behind(lab: Lab) -> None:
    answers = (lab.folder / "lab_answers.py").read_text(encoding="utf-8")
    lab.write("lab_answers.py", 'import sys, time\nprint("here", file=sys.stderr, flush=True)\ntime.sleep(60)\n')
    try:
        life = lab.start()
        life.wait_until_it_says("here")
        life.interrupt()
        ended = life.end(patience_s=10)
    finally:
        lab.write("lab_answers.py", answers)
    assert ended.code == 130
    assert "Traceback" not in ended.err
    assert (lab.run_folders, lab.server.heard) == ([], [])


def test_the_resume_command_is_said_for_machines_too(lab: Lab) -> None:
    with lab.server.holding():
        life = lab.start()
        assert lab.server.wait_for(WORKERS, life)
        life.interrupt()
        life.wait_until_it_says("finishing the conversations in progress")
    ended = life.end()
    assert ended.code == 130
    assert ended.document["run"]["status"] == "interrupted"
    assert f"rejoinder resume {lab.run_folder.name}" in ended.err


# Conversations of several turns, where tools go wrong


@spec("R64", "P14")
def test_after_a_resume_later_turns_have_the_whole_history(lab: Lab) -> None:
    life = lab.start(kill_at="told.queued:150")
    assert life.end().code == KILLED
    told = lab.journal().told
    lab.resume()
    later = [one for one in lab.server.heard if one.life > life.number and one.call.turn > 2 and not one.call.judging]
    carried_on = [one for one in later if one.call._replace(turn=one.call.turn - 1) in told]
    assert len(carried_on) > 10
    for one in later:
        assert list(one.messages) == expected_messages(one.call)
        assert len(one.messages) == 2 * one.call.turn


@spec("R64", "P14")
def test_trials_of_a_conversation_know_nothing_of_each_other(lab: Lab) -> None:
    lab.write("evals.yaml", make_suite([make_case(f"case-{number:02}") for number in range(4)]))
    lab.run(trials=12, kill_at="told.queued:90")
    document = lab.resume().document
    heard = lab.server.heard
    assert len({one.call.trial for one in heard if one.call.turn > 2}) > 6
    for one in heard:
        said = [content for role, content in one.messages if role == "assistant"]
        assert said == [reply_text(one.call._replace(turn=turn)) for turn in range(1, one.call.turn)]
    for result in document["results"]:
        for turn in result["turns"]:
            assert turn["response"] == reply_text(Call(result["id"], "counter", result["trial"], turn["turn"]))


@spec("R64", "P14")
def test_targets_know_nothing_of_what_the_others_said(lab: Lab) -> None:
    lab.write("evals.yaml", make_suite([make_case(f"case-{number:02}") for number in range(8)]))
    arguments = ("--target", "counter", "--target", "other")
    document = lab.run(*arguments).document
    calls = lab.server.calls()
    lab.forget()
    audit = Audit(lab, document, calls)
    life = lab.start(*arguments, kill_at="told.queued:90")
    assert life.end().code == KILLED
    audit.died(life)
    audit.finished(lab.resume().document)
    assert {one.call.target for one in lab.server.heard if one.call.turn > 2} == {"counter", "other"}
    for one in lab.server.heard:
        said = [content for role, content in one.messages if role == "assistant"]
        assert said == [reply_text(one.call._replace(turn=turn)) for turn in range(1, one.call.turn)]
    assert [result["target"] for result in document["results"][::TRIALS]] == ["counter", "other"] * 8


@spec("P26", "R65")
def test_a_turn_that_fails_ends_its_conversation_and_leaves_nothing_in_the_history(lab: Lab) -> None:
    lab.server.refuse = lambda call, _: {"error": "out of words"} if call.turn == 2 and call.trial == 2 else None
    document = lab.run().document
    errors = [result for result in document["results"] if result["status"] == "error"]
    assert errors == [result for result in document["results"] if result["trial"] == 2 and len(result["turns"]) > 1]
    assert len(errors) > 10
    for result in errors:
        assert (result["passed"], result["succeeded_on_turn"], result["error"]["turn"]) == (False, None, 2)
        assert (result["turns"][1]["response"], result["turns"][1]["checks"]) == (None, [])
    assert not [call for call in lab.server.calls() if call.trial == 2 and call.turn > 2]
    check_histories(lab.server.heard)
    assert all(content for one in lab.server.heard for _, content in one.messages)
    assert document["summary"]["exit_code"] == 3


@spec("P14")
def test_a_call_that_is_tried_again_is_sent_the_same_history(lab: Lab, undisturbed: Undisturbed) -> None:
    suite = make_suite()
    for target in suite["targets"]:
        target["retry_initial_delay_ms"] = 1
    lab.write("evals.yaml", suite)

    def refuse(call: Call, times: int) -> dict[str, Any] | None:
        return {"error": "busy", "retryable": True} if call.turn == 2 and times == 1 else None

    lab.server.refuse = refuse
    document = lab.run().document
    assert comparable(document)["results"] == comparable(undisturbed.document)["results"]
    counts = Counter(lab.server.calls())
    assert {call.turn for call, times in counts.items() if times == 2} == {2}
    check_histories(lab.server.heard)


# Secrets

SECRETS = {
    "plain": "tok-5f3a9c71d2",
    "quoted": 'a"b\\c/d é ☃',
    "pin": "2000",  # the number of tokens of a turn, too
    "word": "passed",  # a key of the records, too
}


def _secret_suite() -> dict[str, Any]:
    case = make_case("case-01")
    case["prompt"] = "The code is {{ secret('token') }}. What is the code?"
    return make_suite([case, {**case, "id": "case-02"}, {**case, "id": "case-03"}])


def _echo(heard: Heard, text: str) -> str:
    secret = heard.messages[1][1].removeprefix("The code is ").removesuffix(". What is the code?")
    return f"{text}, the code is {secret}, surely {secret}"


def _leaks(folder: Path, secret: str) -> list[str]:
    """The files that hold a secret, as it is or as JSON writes it, outside of numbers."""
    forms = {secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]}
    return [
        path.name
        for path in sorted(folder.iterdir())
        for form in forms
        if re.search(rb"code is " + re.escape(form.encode()), path.read_bytes())
        or (not secret.isalnum() and form.encode() in path.read_bytes())
    ]


@spec("P15")
@pytest.mark.parametrize("name", SECRETS)
@pytest.mark.parametrize("gone", [False, True], ids=["suite-there", "suite-gone"])
@pytest.mark.every(3)
def test_secrets_stay_out_of_the_folder_and_are_sent_after_a_resume(lab: Lab, name: str, gone: bool) -> None:
    secret = SECRETS[name]
    env = {"REJOINDER_SECRET_TOKEN": secret}
    lab.write("evals.yaml", _secret_suite())
    lab.server.reword = _echo
    life = lab.start(trials=8, kill_at="told.queued:40", env=env)
    assert life.end().code == KILLED
    assert _leaks(lab.run_folder, secret) == []
    if gone:
        (lab.folder / "evals.yaml").unlink()
    ended = lab.resume(env=env)
    assert "Traceback" not in ended.err
    assert ended.document["run"]["status"] == "completed"
    assert _leaks(lab.run_folder, secret) == []
    later = [one for one in lab.server.heard if one.life > life.number]
    assert len(later) > 5
    for one in lab.server.heard:
        assert one.messages[1][1] == f"The code is {secret}. What is the code?"
        assert len([content for role, content in one.messages if secret in content]) == 2 * one.call.turn - 1
    assert len(ended.document["results"]) == 24
    assert all(set(result) >= {"id", "trial", "status", "passed"} for result in ended.document["results"])


@spec("P15", "P26")
def test_secrets_in_errors_and_follow_ups_stay_out_of_the_folder(lab: Lab) -> None:
    secret = SECRETS["plain"]
    suite = _secret_suite()
    suite["evals"][0]["checks"][1]["prompt"] = "No, {{ secret('token') }}! You said {{ response }}."
    lab.write("evals.yaml", suite)
    lab.server.reword = _echo
    lab.server.refuse = lambda call, _: {"error": f"{secret} is wrong"} if call.turn == 3 else None
    ended = lab.run(env={"REJOINDER_SECRET_TOKEN": secret})
    assert ended.document["summary"]["errors"] > 2
    assert secret not in ended.out + ended.err
    assert _leaks(lab.run_folder, secret) == []

"""Scripts of the user's own, run as real processes: what they may print, and that nothing of them stays behind."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rejoinder.checks.base import CheckFault
from rejoinder.checks.scripts import opinion_of, run_script
from rejoinder.model import Opinion
from rejoinder.user_code.guard import end_marked
from rejoinder.user_code.processes import MOST_STDOUT, Ended
from rejoinder.user_code.programs import MOST_STDERR
from tests.kit import PATIENCE_S, assert_gone, bounded, is_alive, wait_until


def python(source: str) -> tuple[str, ...]:
    return (sys.executable, "-c", source)


def run(words: tuple[str, ...], folder: Path, stdin: bytes = b"{}", timeout_s: float = PATIENCE_S) -> Ended:
    return asyncio.run(run_script(words, folder, stdin, timeout_s))


def opinion(words: tuple[str, ...], folder: Path, stdin: bytes = b"{}") -> Opinion:
    return opinion_of(run(words, folder, stdin))


def fault(words: tuple[str, ...], folder: Path, timeout_s: float = PATIENCE_S) -> str:
    with pytest.raises(CheckFault) as caught:
        opinion_of(run(words, folder, timeout_s=timeout_s))
    return str(caught.value)


def assert_reaped(*pids: int) -> None:
    for pid in pids:
        with pytest.raises(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def pids_in(file: Path, count: int) -> list[int]:
    """The numbers in a file that a script writes, when they are all there."""

    def read() -> list[str]:
        return file.read_text().split("\n")[:-1] if file.exists() else []

    wait_until(lambda: len(read()) >= count, f"{file} was not written")
    return [int(line) for line in read()]


def is_waited_for() -> bool:
    return any(thread.name == "rejoinder-program" for thread in threading.enumerate())


@pytest.fixture(autouse=True)
def nothing_left(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """After each test: no descriptor more than before, no thread that waits for a process, and no complaint of the
    loop about an error in a callback."""
    before = len(list(Path("/dev/fd").iterdir()))
    yield
    wait_until(lambda: not is_waited_for(), "a script is still waited for")
    assert len(list(Path("/dev/fd").iterdir())) <= before
    assert not [record for record in caplog.get_records("call") if record.levelno >= logging.ERROR]


# Verdicts


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ('{"passed": true}', Opinion(passed=True)),
        ('{"passed": false, "reason": "too short"}', Opinion(passed=False, reason="too short")),
        ('\n  {"score": 0.25}\n\n', Opinion(score=0.25)),
        ('{\n  "score": 1\n}\n', Opinion(score=1.0)),
        ("true\n", Opinion(passed=True)),
        ("false\n", Opinion(passed=False)),
        ("0.5\n", Opinion(score=0.5)),
        ("1\n", Opinion(score=1.0)),
        ("", Opinion(passed=True)),
        (" \n", Opinion(passed=True)),
        ('loading\n{not json}\n{"score": 0.75}\n', Opinion(score=0.75)),
        ('loading\r\n{"passed": false}\r\n', Opinion(passed=False)),
        ('{"step": 1}\n{"passed": true}\n', Opinion(passed=True)),
    ],
)
def test_what_a_script_prints_is_its_verdict(tmp_path: Path, printed: str, expected: Opinion) -> None:
    assert opinion(python(f"import sys; sys.stdout.write({printed!r})"), tmp_path) == expected


def test_the_form_of_agentv(tmp_path: Path) -> None:
    script = """
import json, sys
told = json.load(sys.stdin)
hit = "4" in told["candidate_answer"]
print(json.dumps({"score": 0.5, "hits": ["the sum"] if hit else [], "misses": ["the proof"], "reasoning": "half"}))
"""
    (tmp_path / "grade.py").write_text(script)
    told = json.dumps({"candidate_answer": "It is 4."}).encode()
    expected = Opinion(score=0.5, hits=("the sum",), misses=("the proof",), reason="half")
    assert opinion((f"'{sys.executable}' grade.py",), tmp_path, told) == expected
    assert opinion((sys.executable, "grade.py"), tmp_path, told) == expected


@pytest.mark.parametrize(
    ("printed", "score"),
    [('{"score": 7}', 1.0), ('{"score": -0.5}', 0.0), ("1e300", 1.0), ("-3", 0.0), ("9" * 60, 1.0)],
)
def test_points_beyond_the_scale_are_clamped(printed: str, score: float) -> None:
    assert opinion_of(Ended(0, printed, "")) == Opinion(score=score)


def test_a_script_may_talk_on_standard_error_while_it_succeeds(tmp_path: Path) -> None:
    assert opinion(("echo working >&2; echo true",), tmp_path) == Opinion(passed=True)


def test_one_word_is_a_line_for_the_shell_and_several_are_not(tmp_path: Path) -> None:
    (tmp_path / "verdict.json").write_text('{"score": 1}')
    assert opinion(("cat verdict.json | tr 1 0",), tmp_path) == Opinion(score=0.0)
    assert run(("printf", "%s", "$HOME; exit 1"), tmp_path).stdout == "$HOME; exit 1"


def test_the_environment_is_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADE", "0.125")
    assert opinion(('echo "$GRADE"',), tmp_path) == Opinion(score=0.125)


def test_a_failing_exit_code_without_a_word_on_standard_error_is_a_verdict(tmp_path: Path) -> None:
    assert opinion(("exit 3",), tmp_path) == Opinion(passed=False, reason="exit code 3")
    assert opinion(("echo 'two words are missing'; exit 1",), tmp_path) == Opinion(
        passed=False, reason="two words are missing"
    )
    long = opinion(python("print('x' * 5000); raise SystemExit(1)"), tmp_path)
    assert long.passed is False
    assert long.reason == "x" * 600 + "..."


# What is no verdict


@pytest.mark.parametrize(
    ("printed", "said"),
    [
        ("all good", "the script printed 'all good'; JSON is expected"),
        ('"a text"', "the script printed '\"a text\"'; JSON is expected"),
        ("[1]", "the script printed '[1]'; JSON is expected"),
        ("null", "the script printed 'null'; JSON is expected"),
        ("NaN", "the script printed 'NaN'; JSON is expected"),
        ('{"score": NaN}', "the script printed '{\"score\": NaN}'; JSON is expected"),
        ('{"score": 1e999}', "the script printed '{\"score\": 1e999}'; JSON is expected"),
        ('{"score": 1', "the script printed '{\"score\": 1'; JSON is expected"),
        ("log\ntrue", "the script printed 'log\\ntrue'; JSON is expected"),
        ("[" * 5000, "the script printed '[[[[["),
        ("{}", "the script gave {}, which has neither `score` nor `passed`"),
        ('{"scor": 1}', "the script gave {'scor': 1}, which has neither"),
        ('{"score": "high"}', "the script gave the score 'high'"),
        ('{"score": true}', "the script gave the score True"),
        ('{"score": [2]}', "the script gave the score [2]"),
        ('{"passed": "yes"}', "the script gave 'yes' as `passed`"),
        ('log\n{"passed": 1}', "the script gave 1 as `passed`"),
    ],
)
def test_rubbish_is_quoted(tmp_path: Path, printed: str, said: str) -> None:
    assert fault(python(f"print({printed!r})"), tmp_path).startswith(said)
    with pytest.raises(CheckFault) as caught:
        opinion_of(Ended(0, printed, "the\nlast words\n"))
    assert "the\nlast words" in str(caught.value)


def test_a_long_quote_is_shortened() -> None:
    with pytest.raises(CheckFault) as caught:
        opinion_of(Ended(0, "blah " * 10_000, ""))
    assert len(str(caught.value)) < 400
    assert "blah ...'; JSON" in str(caught.value)


@pytest.mark.slow
def test_nesting_too_deep_to_be_shown_is_a_fault() -> None:
    for depth in range(1, 1100):
        text = '{"reason": ' + "[" * depth + "]" * depth + "}"
        with pytest.raises(CheckFault):
            opinion_of(Ended(0, text, ""))


def test_a_crash_is_shown_by_the_end_of_its_standard_error(tmp_path: Path) -> None:
    said = fault(python("raise ValueError('no such rubric')"), tmp_path)
    assert said.startswith("the script ended with exit code 1: Traceback")
    assert said.endswith("ValueError: no such rubric")


def test_only_the_end_of_standard_error_is_shown(tmp_path: Path) -> None:
    said = fault(("seq 1 1000 >&2; exit 9",), tmp_path)
    assert said == "the script ended with exit code 9: " + "\n".join(str(number) for number in range(991, 1001))
    wide = fault(python("import sys; sys.exit('<' + 'x' * 5000 + '>')"), tmp_path)
    assert wide == "the script ended with exit code 1: ..." + "x" * 599 + ">"


@pytest.mark.parametrize("printed", ['{"score": 1}', "true", "0", 'log\n{"passed": false}'])
def test_a_verdict_with_a_failing_exit_code_is_a_contradiction(tmp_path: Path, printed: str) -> None:
    said = fault(python(f"print({printed!r}); raise SystemExit(4)"), tmp_path)
    assert said.startswith(f"the script ended with exit code 4 although it printed {printed!r}")


def test_a_command_that_the_shell_does_not_know_is_a_fault(tmp_path: Path) -> None:
    said = fault(("surely-no-such-command --x",), tmp_path)
    assert said.startswith("the script ended with exit code 127: ")
    assert "surely-no-such-command" in said


@pytest.mark.parametrize("name", ["SIGKILL", "SIGSEGV", "SIGTERM"])
def test_a_script_that_is_killed_names_the_signal(tmp_path: Path, name: str) -> None:
    source = f"import os, signal; print(True, flush=True); os.kill(os.getpid(), signal.{name})"
    assert fault(python(source), tmp_path) == f"the script was killed by {name}"
    number = int(getattr(signal, name))
    assert run(python(source), tmp_path).exit_code == -number


def test_a_signal_without_a_name() -> None:
    with pytest.raises(CheckFault, match="killed by signal 40: oh"):
        opinion_of(Ended(-40, "", "oh\n"))


def test_bytes_that_are_no_text_are_replaced(tmp_path: Path) -> None:
    source = 'import sys; sys.stdout.buffer.write(b\'{"passed": false, "reason": "\\xff\\xfe"}\')'
    assert opinion(python(source), tmp_path) == Opinion(passed=False, reason="\ufffd\ufffd")
    broken = "import sys; sys.stderr.buffer.write(b'caf\\xe9'); sys.exit(1)"
    assert fault(python(broken), tmp_path) == "the script ended with exit code 1: caf\ufffd"


# Programs that cannot be started


def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert fault(("no-such-program", "x"), tmp_path) == "there is no program `no-such-program`"
    assert fault(("./no-such-file", "x"), tmp_path) == "there is no program `./no-such-file`"


def test_a_file_of_the_folder_needs_its_path(tmp_path: Path) -> None:
    (tmp_path / "grade-of-mine").touch(0o755)
    said = fault(("grade-of-mine", "x"), tmp_path)
    assert said == f"there is no program `grade-of-mine`; for the file in {tmp_path} write `./grade-of-mine`"


def test_a_file_that_is_no_program_says_what_to_write(tmp_path: Path) -> None:
    plain = tmp_path / "grade.py"
    plain.write_text("print(1)")
    assert fault(("./grade.py", "x"), tmp_path) == (
        "`./grade.py` cannot be run: Permission denied; write the program that reads it before it, such as `python3`"
    )
    plain.chmod(0o755)
    assert fault(("./grade.py", "x"), tmp_path).startswith("`./grade.py` cannot be run: Exec format error; write")
    plain.write_text("#!/no/such/interpreter\n")
    assert fault(("./grade.py", "x"), tmp_path) == (
        "`./grade.py` cannot be run: the program that its first line (`#!`) names is missing"
    )


def test_a_program_with_a_first_line_runs(tmp_path: Path) -> None:
    (tmp_path / "grade").write_text("#!/bin/sh\necho $1\n")
    (tmp_path / "grade").chmod(0o755)
    assert opinion(("./grade", "0.5"), tmp_path) == Opinion(score=0.5)


def test_a_folder_is_no_program(tmp_path: Path) -> None:
    (tmp_path / "grade").mkdir()
    assert fault(("./grade", "x"), tmp_path) == "`./grade` cannot be run: it is a folder"


def test_commands_that_cannot_be_are_faults(tmp_path: Path) -> None:
    assert fault((), tmp_path) == "there is no command to run"
    assert fault((" \n",), tmp_path) == "there is no command to run"
    assert fault(("", "x"), tmp_path) == "there is no command to run"
    assert "null" in fault(("echo \0",), tmp_path)
    assert fault(("echo", "\ud800"), tmp_path).startswith("the command cannot be run")
    assert fault(("echo", "x" * 20_000_000), tmp_path).startswith("`echo` cannot be run: Argument list too long")
    assert "there is no folder" in fault(("echo 1",), tmp_path / "none")


# Pipes

BIG = b"[" + b"1," * (4 << 20) + b"1]"


def test_a_big_input_arrives_whole(tmp_path: Path) -> None:
    ended = run(python("import sys; print(len(sys.stdin.buffer.read()))"), tmp_path, BIG)
    assert int(ended.stdout) == len(BIG)


def test_an_output_before_the_input_is_read_does_not_block(tmp_path: Path) -> None:
    """Nor does an input that is read in part: the pipe has room for a little then, but not for all that is left."""
    source = """
import os, sys
first = len(os.read(0, 8192))
sys.stdout.write(" " * 500_000); sys.stdout.flush()
sys.stderr.write("." * 500_000); sys.stderr.flush()
print(first + len(sys.stdin.buffer.read()))
"""
    assert int(run(python(source), tmp_path, BIG).stdout) == len(BIG)


@pytest.mark.parametrize(
    "line",
    ["echo true", "exec <&-; sleep 0.2; echo true", "head -c 10 >/dev/null; echo true"],
    ids=["ignored", "closed", "read in part"],
)
def test_an_input_that_is_not_wanted_is_no_error(tmp_path: Path, line: str) -> None:
    assert opinion((line,), tmp_path, BIG) == Opinion(passed=True)


def test_the_input_ends(tmp_path: Path) -> None:
    assert run(("cat; echo end",), tmp_path, b"").stdout == "end\n"


def test_the_input_can_be_opened_as_a_file(tmp_path: Path) -> None:
    """As scripts for Node do it."""
    assert opinion(("cat /dev/stdin",), tmp_path, b"0.5") == Opinion(score=0.5)


def test_a_flood_on_standard_output_is_ended(tmp_path: Path) -> None:
    assert fault(("echo so much to say >&2; yes",), tmp_path) == ("the script prints more than 1 MiB: so much to say")


def test_standard_output_may_be_a_mebibyte_and_no_more(tmp_path: Path) -> None:
    source = "import sys; sys.stdout.write('true'.rjust({}))"
    assert opinion(python(source.format(MOST_STDOUT)), tmp_path) == Opinion(passed=True)
    assert fault(python(source.format(MOST_STDOUT + 1)), tmp_path) == "the script prints more than 1 MiB"


def test_a_flood_on_standard_error_is_no_error(tmp_path: Path) -> None:
    source = """
import sys
for _ in range(200):
    sys.stderr.write("noise " * 20_000)
sys.stderr.write("at last"); sys.stderr.flush()
print("true")
"""
    ended = run(python(source), tmp_path)
    assert opinion_of(ended) == Opinion(passed=True)
    assert ended.stderr.endswith("at last")
    assert MOST_STDERR <= len(ended.stderr) <= 2 * MOST_STDERR


def test_no_other_descriptor_of_ours_is_passed_on(tmp_path: Path) -> None:
    ours = os.open(tmp_path, os.O_RDONLY)
    try:
        os.set_inheritable(ours, True)
        source = f"import os\ntry: os.fstat({ours}); print('false')\nexcept OSError: print('true')"
        assert opinion(python(source), tmp_path) == Opinion(passed=True)
    finally:
        os.close(ours)


# The end


def test_a_script_that_hangs_is_ended(tmp_path: Path) -> None:
    said = fault(("echo $$ > pid; echo thinking >&2; sleep 600",), tmp_path, timeout_s=0.5)
    assert said.startswith("the script did not end within 0.5 s")
    if (tmp_path / "pid").exists():  # a very slow machine may not have come so far
        assert said.endswith("thinking")
        [pid] = pids_in(tmp_path / "pid", 1)
        assert_reaped(pid)


def test_a_script_is_asked_to_end_before_it_is_killed(tmp_path: Path) -> None:
    line = "trap 'echo cleaned up >&2; exit 0' TERM; echo true; echo ready > ready; while :; do sleep 0.05; done"
    for timeout_s in (0.5, 5.0, 50.0):  # a slow machine gets more time to set the trap
        said = fault((line,), tmp_path, timeout_s)
        if (tmp_path / "ready").exists():
            break
    assert said.startswith(f"the script did not end within {timeout_s:g} s: ")
    assert said.endswith("cleaned up")


@pytest.mark.slow
def test_a_script_that_ignores_being_asked_is_killed(tmp_path: Path) -> None:
    source = """
import os, pathlib, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
pathlib.Path("pid").write_text(f"{os.getpid()}\\n")
while True: time.sleep(1)
"""
    assert fault(python(source), tmp_path, timeout_s=1.5) == "the script did not end within 1.5 s"
    if (tmp_path / "pid").exists():
        assert_reaped(*pids_in(tmp_path / "pid", 1))


@pytest.mark.slow
def test_what_a_hanging_script_started_ends_with_it(tmp_path: Path) -> None:
    line = "(trap '' TERM; sh -c 'echo $$ > grandchild; exec sleep 600') & echo $! > child; wait"
    fault((line,), tmp_path, timeout_s=1.5)
    if (tmp_path / "grandchild").exists() and (tmp_path / "child").exists():
        assert_gone(*pids_in(tmp_path / "grandchild", 1), *pids_in(tmp_path / "child", 1))


def test_what_a_script_leaves_behind_is_killed(tmp_path: Path) -> None:
    line = "trap '' TERM HUP; sleep 600 </dev/null >/dev/null 2>&1 & echo $! > child; echo true"
    assert opinion((line,), tmp_path) == Opinion(passed=True)
    assert_gone(*pids_in(tmp_path / "child", 1))


@pytest.mark.parametrize("line", ["sleep 600 & echo $! > child; echo true", "sleep 600 & echo $! > child; exit 1"])
def test_a_background_child_that_holds_the_pipes_does_not_hold_us(tmp_path: Path, line: str) -> None:
    assert opinion((line,), tmp_path).passed is line.endswith("true")
    assert_gone(*pids_in(tmp_path / "child", 1))


def test_a_process_that_left_the_group_does_not_hold_us(tmp_path: Path) -> None:
    source = """
import os, pathlib, subprocess, sys
child = subprocess.Popen(["sleep", "600"], start_new_session=True)
pathlib.Path("child").write_text(f"{child.pid}\\n")
print("true", flush=True)
os._exit(0)
"""
    assert opinion(python(source), tmp_path) == Opinion(passed=True)
    for pid in pids_in(tmp_path / "child", 1):
        os.kill(pid, signal.SIGKILL)
        assert_gone(pid)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="only Linux shows the environment of others")
@pytest.mark.parametrize("end", ["sys.exit('broken')", "time.sleep(600)", "print('x' * (2 << 20), flush=True)"])
def test_a_process_that_left_the_group_ends_with_a_script_that_does_not_end_well(tmp_path: Path, end: str) -> None:
    source = f"""
import pathlib, subprocess, sys, time
inner = "setsid sleep 600 >/dev/null 2>&1 </dev/null & echo $!"
child = subprocess.run(["sh", "-c", inner], start_new_session=True, stdout=subprocess.PIPE, text=True)
pathlib.Path("child").write_text(child.stdout)
{end}
"""
    for timeout_s in (3.0, 30.0):  # a slow machine gets more time to start it
        assert fault(python(source), tmp_path, timeout_s)
        if (tmp_path / "child").exists():
            break
    assert_gone(*pids_in(tmp_path / "child", 1))


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="only Linux shows the environment of others")
def test_a_process_that_is_just_being_started_is_ended() -> None:
    """While a program takes the place of another, its process shows no environment."""
    for number in range(100):
        name = f"REJOINDER_TEST=started{number}"
        process = subprocess.Popen(["setsid", "sleep", "600"], env={**os.environ, "REJOINDER_TEST": f"started{number}"})
        try:
            assert end_marked({name.encode()})
        finally:
            process.kill()
            process.wait()


@pytest.mark.slow
def test_a_background_child_that_floods_is_ended(tmp_path: Path) -> None:
    assert fault(("yes & echo $! > child",), tmp_path) == "the script prints more than 1 MiB"
    assert_gone(*pids_in(tmp_path / "child", 1))


TREE = "trap '' TERM; echo $$ >> pids; sh -c 'echo $$ >> pids; exec sleep 600' & wait"


@pytest.mark.parametrize("times", [1, 3])
def test_cancelling_kills_all_of_it(tmp_path: Path, times: int) -> None:
    async def cancel() -> None:
        task = asyncio.create_task(run_script((TREE,), tmp_path, BIG, PATIENCE_S * 10))
        await asyncio.to_thread(pids_in, tmp_path / "pids", 2)
        for _ in range(times):
            task.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    pids = pids_in(tmp_path / "pids", 2)
    assert_gone(*pids)
    wait_until(lambda: not is_waited_for(), "it is still waited for")
    assert_reaped(*pids)


def test_cancelling_at_any_moment_leaves_nothing(tmp_path: Path) -> None:
    async def cancel_after(steps: int) -> None:
        task = asyncio.create_task(run_script((TREE,), tmp_path, BIG, PATIENCE_S * 10))
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    for steps in range(12):
        asyncio.run(cancel_after(steps))
    if (tmp_path / "pids").exists():
        assert_gone(*pids_in(tmp_path / "pids", 0))


def test_a_limit_from_outside_cancels_as_well(tmp_path: Path) -> None:
    async def limited() -> None:
        async with asyncio.timeout(0.5):
            await run_script((TREE,), tmp_path, b"", PATIENCE_S * 10)

    with pytest.raises(TimeoutError):
        asyncio.run(limited())
    if (tmp_path / "pids").exists():
        assert_gone(*pids_in(tmp_path / "pids", 0))


def test_no_zombie_is_left(tmp_path: Path) -> None:
    pid = int(run(("echo $$",), tmp_path).stdout)
    assert_reaped(pid)
    assert not is_alive(pid)


@pytest.mark.slow
def test_thirty_at_once(tmp_path: Path) -> None:
    async def all_of_them() -> list[Ended]:
        return await asyncio.gather(
            *(
                run_script(("cat; echo $$ >&2",), tmp_path, f"0.{number:02}".encode(), PATIENCE_S)
                for number in range(30)
            )
        )

    ended = asyncio.run(all_of_them())
    assert [opinion_of(one).score for one in ended] == [number / 100 for number in range(30)]
    pids = [int(one.stderr) for one in ended]
    assert len(set(pids)) == 30
    assert_reaped(*pids)


def test_a_loop_in_another_thread_can_run_scripts(tmp_path: Path) -> None:
    ended: list[Ended] = []
    thread = threading.Thread(target=lambda: ended.append(run(("echo true",), tmp_path)))
    thread.start()
    thread.join(PATIENCE_S)
    assert [opinion_of(one) for one in ended] == [Opinion(passed=True)]


# Anything at all

KEYS = ["score", "passed", "pass", "reason", "reasoning", "hits", "misses", "x"]
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=8,
)
json_texts = json_values.map(json.dumps)
printouts = st.one_of(
    st.text(st.characters(), max_size=40),
    json_texts,
    st.builds("{}{}\n".format, st.text(max_size=10), json_texts),
    st.builds("{}\n{}".format, json_texts, json_texts),
)


@pytest.mark.slow
@bounded(400)
@given(
    code=st.one_of(st.just(0), st.integers(-70, 260)),
    stdout=printouts,
    stderr=st.one_of(st.just(""), st.text(max_size=20)),
)
@example(0, '{"score": 1' + "0" * 5000 + "}", "")
@example(0, "\ud800", "\ud800")
@example(1, "\ud800", "")
def test_whatever_a_script_does_is_an_opinion_or_a_fault(code: int, stdout: str, stderr: str) -> None:
    try:
        given = opinion_of(Ended(code, stdout, stderr))
    except CheckFault as fault:
        assert str(fault).startswith("the script ")
        assert code != 0 or stdout.strip()
        return
    assert code >= 0
    assert given.score is None or 0 <= given.score <= 1
    assert given.passed is not None or given.score is not None
    if code > 0:
        assert given.passed is False and given.reason and not stderr.strip()
    if code == 0 and stdout.isascii():
        assert msgspec.json.decode(msgspec.json.encode(given), type=Opinion) == given

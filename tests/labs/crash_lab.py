"""A place to kill rejoinder in: a server that counts what it is asked, a project that asks it, and child processes.

The server answers a call by its case, target, trial and turn alone, so every run of a suite has the same results, and
what a request must hold is known beforehand. Each child process is a *life* of a run and has a number, which its
requests carry: so a call that was made again is found, and the life that made it.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import sys
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from tests.kit import PATIENCE_S, Ended, Process, command_line, comparable, run_folders, without

WORKERS = 50
CASES, TRIALS = 16, 4

SYSTEM = "Answer in one line."

ANSWERS = '''\
"""The target of the crash tests: asks the counting server."""

import asyncio
import http.client
import json
import os

PORT = {port}
LIFE = int(os.environ.get("LAB_LIFE", "0"))
free = []


class Refused(Exception):
    def __init__(self, message, retryable):
        super().__init__(message)
        self.retryable = retryable


def to_json(request):
    return json.dumps({{
        "life": LIFE,
        "call": [request.case_id, request.target, request.trial, request.turn, request.judging],
        "messages": [[message.role, message.content] for message in request.messages],
    }}).encode()


def read(answer):
    answer = json.loads(answer)
    if "error" in answer:
        raise Refused(answer["error"], answer.get("retryable", False))
    return answer


async def reply(request):
    body = to_json(request)
    reader, writer = free.pop() if free else await asyncio.open_connection("127.0.0.1", PORT)
    writer.write(b"POST / HTTP/1.1\\r\\nHost: lab\\r\\nContent-Length: %d\\r\\n\\r\\n" % len(body) + body)
    head = await reader.readuntil(b"\\r\\n\\r\\n")
    answer = await reader.readexactly(int(head.rpartition(b":")[2]))
    free.append((reader, writer))
    return read(answer)


def blocking_reply(request):
    connection = http.client.HTTPConnection("127.0.0.1", PORT)
    try:
        connection.request("POST", "/", to_json(request))
        return read(connection.getresponse().read())
    finally:
        connection.close()
'''

LIMITED = """\
import os, resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
os.execv(sys.executable, [sys.executable, *sys.argv[2:]])
"""


class Call(NamedTuple):
    """What a call is for. Two requests with the same are the same call, made twice."""

    case: str
    target: str
    trial: int
    turn: int
    judging: bool = False


class Heard(NamedTuple):
    """A request as it came in."""

    life: int
    call: Call
    messages: tuple[tuple[str, str], ...]


# What is said


def right_turn(call: Call) -> int:
    """The turn whose reply is right: mostly a late one; 5 means never."""
    number = zlib.crc32(f"{call.case}/{call.target}/{call.trial}".encode())
    return (1, 2, 3, 3, 4, 4, 4, 5)[number % 8]


def reply_text(call: Call) -> str:
    verdict = "right" if call.turn == right_turn(call) else "wrong"
    return f"{call.case}, {call.target}, trial {call.trial}, turn {call.turn}: {verdict}"


def follow_up(case: str, turn: int, previous: str) -> str:
    return f"Turn {turn} of {case}: you said `{previous}`, try again."


def expected_messages(call: Call) -> list[tuple[str, str]]:
    """The request that a candidate must receive for this call, word by word."""
    messages = [("system", SYSTEM), ("user", f"What is the word of {call.case}?")]
    for turn in range(1, call.turn):
        said = reply_text(call._replace(turn=turn))
        messages += [("assistant", said), ("user", follow_up(call.case, turn + 1, said))]
    return messages


def make_case(case_id: str, *, judged: bool = False, turns: int = 4) -> dict[str, Any]:
    check = {"llm_judge": {"criteria": "Is it right?"}} if judged else {"contains": "right"}
    checks: list[Any] = [check]
    for turn in range(turns, 1, -1):
        checks = [check, {"prompt": follow_up(case_id, turn, "{{ response }}"), "checks": checks}]
    return {"id": case_id, "prompt": f"What is the word of {case_id}?", "checks": checks}


def make_suite(cases: Iterable[dict[str, Any]] | None = None, *, blocking: bool = False) -> dict[str, Any]:
    function = "lab_answers:blocking_reply" if blocking else "lab_answers:reply"
    names = ("counter", "other", "judge")
    if cases is None:
        cases = [make_case(f"case-{number:02}", judged=number % 5 == 0) for number in range(CASES)]
    return {
        "metadata": {"system_prompt": SYSTEM},
        "targets": [{"name": name, "provider": "python", "call": function} for name in names],
        "target": "counter",
        "execution": {"judge_target": "judge"},
        "evals": list(cases),
    }


# The server


class CountingServer:
    """Answers on loopback after some milliseconds, and remembers every request."""

    def __init__(self, delays_ms: tuple[float, float] = (2, 10)) -> None:
        self.heard: list[Heard] = []
        self._by_life: Counter[int] = Counter()
        self._times: Counter[Call] = Counter()
        self.under_way = self.most_at_once = 0
        self.is_held: Callable[[Call], bool] = lambda _: False
        self.refuse: Callable[[Call, int], dict[str, Any] | None] = lambda _call, _times: None
        self.reword: Callable[[Heard, str], str] = lambda _heard, text: text
        self._delays_ms = delays_ms
        self._changed = threading.Condition()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        opening = asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=200)
        self._server = asyncio.run_coroutine_threadsafe(opening, self._loop).result()
        self.port: int = self._server.sockets[0].getsockname()[1]

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        self._server.close()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def forget(self) -> None:
        with self._changed:
            self.heard = []
            self._by_life.clear()
            self._times.clear()
            self.most_at_once = 0
        self.is_held = lambda _: False
        self.refuse = lambda _call, _times: None
        self.reword = lambda _heard, text: text

    def calls(self, life: int | None = None) -> list[Call]:
        return [one.call for one in list(self.heard) if life is None or one.life == life]

    def wait_for(self, number: int, life: Life) -> bool:
        """Wait until a life has made so many calls; False when it ended before."""
        end = time.monotonic() + PATIENCE_S
        with self._changed:
            while self._by_life[life.number] < number:
                if life.process.poll() is not None:
                    return False
                assert time.monotonic() < end, f"{self._by_life[life.number]} of {number} calls came"
                self._changed.wait(0.02)
        return True

    @contextmanager
    def holding(self, is_held: Callable[[Call], bool] = lambda _: True) -> Iterator[None]:
        """While entered, such calls are heard and not answered."""
        self.is_held = is_held
        try:
            yield
        finally:
            self.is_held = lambda _: False

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
                answer = await self._answer(json.loads(await reader.readexactly(int(length.partition(b":")[2]))))
                data = json.dumps(answer).encode()
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(data) + data)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the process was killed
        finally:
            writer.close()

    async def _answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        call = Call(*asked["call"])
        heard = Heard(asked["life"], call, tuple((role, content) for role, content in asked["messages"]))
        with self._changed:
            self.heard.append(heard)
            self._by_life[heard.life] += 1
            self._times[call] += 1
            times = self._times[call]
            self.under_way += 1
            self.most_at_once = max(self.most_at_once, self.under_way)
            self._changed.notify_all()
        try:
            shortest, longest = self._delays_ms
            await asyncio.sleep((shortest + zlib.crc32(repr(call).encode()) % 97 / 96 * (longest - shortest)) / 1000)
            while self.is_held(call):
                await asyncio.sleep(0.005)
        finally:
            self.under_way -= 1
        refusal = self.refuse(call, times)
        if refusal is not None:
            return refusal
        text = _judge(heard) if call.judging else reply_text(call)
        return {"text": self.reword(heard, text), "input_tokens": 1000 * call.turn, "output_tokens": 7, "cost": 0.25}


def _judge(heard: Heard) -> str:
    """A judge's verdict on the candidate's answer, which stands last in what it is shown."""
    answer = heard.messages[-1][1].rpartition("candidate_answer")[2]
    return json.dumps({"score": float("right" in answer), "hits": [], "misses": [], "reasoning": answer.strip("] #\n")})


# Child processes


class Life(Process):
    """One process that works on a run."""

    def __init__(self, number: int, folder: Path, **options: Any) -> None:
        super().__init__(folder, **options)
        self.number = number


class Journal(NamedTuple):
    """What a journal holds, read without rejoinder's own code."""

    told: set[Call]
    doubtful: set[Call]
    """Asked and not told by the process that had it last."""
    in_doubt: int
    """Over the whole life of the run."""


class Lab:
    """A project that asks the counting server."""

    def __init__(self, folder: Path, server: CountingServer) -> None:
        self.folder = folder
        self.server = server
        self.lives = 0
        self._last: Life | None = None
        (folder / ".rejoinder").mkdir(parents=True, exist_ok=True)
        self.write("lab_answers.py", ANSWERS.format(port=server.port))
        self.write("evals.yaml", make_suite())

    def write(self, name: str, content: str | dict[str, Any]) -> None:
        text = content if isinstance(content, str) else json.dumps(content, indent=1)
        (self.folder / name).write_text(text, encoding="utf-8")

    def forget(self) -> None:
        """End what is left of the last process, delete all runs, and what the server heard."""
        if self._last is not None and self._last.process.poll() is None:
            self._last.kill()
        shutil.rmtree(self.folder / ".rejoinder" / "runs", ignore_errors=True)
        self.server.forget()

    def spawn(
        self, *arguments: str, kill_at: str = "", file_limit: int | None = None, env: dict[str, str] | None = None
    ) -> Life:
        self.lives += 1
        command = command_line(*arguments)
        if file_limit is not None:
            command = [sys.executable, "-c", LIMITED, str(file_limit), *command[1:]]
        environment = {**(env or {}), "LAB_LIFE": str(self.lives), "REJOINDER_KILL_AT": kill_at}
        self._last = Life(self.lives, self.folder, command=command, **environment)
        return self._last

    def command(self, *arguments: str, **options: Any) -> Ended:
        return self.spawn(*arguments, **options).end()

    def start(self, *arguments: str, trials: int = TRIALS, form: str = "json", **options: Any) -> Life:
        given = ("--workers", str(WORKERS), "--repeat", str(trials), "--format", form)
        return self.spawn("run", "evals.yaml", *given, *arguments, **options)

    def run(self, *arguments: str, **options: Any) -> Ended:
        return self.start(*arguments, **options).end()

    def resume(self, *arguments: str, **options: Any) -> Ended:
        return self.command("resume", "last", "--format", "json", *arguments, **options)

    def show(self) -> Ended:
        return self.command("show", "--format", "json")

    @property
    def run_folders(self) -> list[Path]:
        return run_folders(self.folder)

    @property
    def run_folder(self) -> Path:
        [folder] = self.run_folders
        return folder

    @property
    def has_begun(self) -> bool:
        """Is there a run that can be resumed?"""
        return any((folder / "run.json").exists() for folder in self.run_folders)

    def journal(self) -> Journal:
        path = self.run_folder / "journal.jsonl"
        return read_journal(path.read_bytes() if path.exists() else b"")


def read_journal(data: bytes) -> Journal:
    calls: dict[str, Call] = {}
    told: set[Call] = set()
    doubtful: set[Call] = set()
    in_doubt = 0
    for line in data.split(b"\n")[:-1]:  # what follows the last line feed is torn
        record = json.loads(line)
        if record["type"] == "asked":
            judging = record["key"].startswith("judge-")
            call = Call(*(record[name] for name in ("case", "target", "trial", "turn")), judging)
            calls[record["key"]] = call
            doubtful.add(call)
        elif record["type"] == "told":
            told.add(calls[record["key"]])
            doubtful.discard(calls[record["key"]])
        elif record["type"] == "failed":
            doubtful.discard(calls[record["key"]])
        else:
            in_doubt += len(doubtful)
            doubtful.clear()
    return Journal(told, doubtful, in_doubt + len(doubtful))


# What must hold


def check_histories(heard: Iterable[Heard]) -> None:
    """Every request to a candidate holds its own conversation, whole, and nothing else."""
    for one in heard:
        if not one.call.judging:
            assert list(one.messages) == expected_messages(one.call), one


def _whatever_the_suite(document: dict[str, Any]) -> dict[str, Any]:
    """A comparable document, without the digests of its suite: that may block in its function."""
    return without(comparable(document), lambda key: key == "digests")


class Audit:
    """Follows a run through its lives. `died` is called after each kill, `finished` at the end."""

    def __init__(self, lab: Lab, baseline: dict[str, Any], calls: Iterable[Call]) -> None:
        self.lab = lab
        self.baseline = _whatever_the_suite(baseline)
        self.calls = set(calls)
        self.deaths: dict[int, Journal] = {}
        self.repeated = self.in_doubt = 0

    def died(self, life: Life) -> Journal:
        """Nothing that was told before may be lost, and no more may be in doubt than was under way."""
        now = self.lab.journal()
        for earlier in self.deaths.values():
            assert earlier.told <= now.told, f"lost: {earlier.told - now.told}"
        assert len(now.doubtful) <= WORKERS, f"{len(now.doubtful)} calls in doubt"
        assert now.told <= set(self.lab.server.calls()), "a reply was recorded that nobody gave"
        self.deaths[life.number] = now
        return now

    def finished(self, document: dict[str, Any]) -> None:
        self.check_calls()
        assert document["run"]["status"] == "completed"
        self.in_doubt = document["run"]["in_doubt"]
        assert self.in_doubt == self.lab.journal().in_doubt
        assert self.repeated <= self.in_doubt <= WORKERS * len(self.deaths), (self.repeated, self.in_doubt)
        assert set(self.lab.server.calls()) == self.calls, "calls were lost or made up"
        assert _whatever_the_suite(document) == self.baseline

    def check_calls(self) -> None:
        """What was told is never asked again; what is asked again was in doubt."""
        heard = list(self.lab.server.heard)
        check_histories(heard)
        made: dict[Call, int] = {}
        twice = Counter((one.life, one.call) for one in heard)
        assert max(twice.values(), default=1) == 1, "a call was made twice by one process"
        self.repeated = 0
        for one in heard:
            for life, journal in self.deaths.items():
                assert life >= one.life or one.call not in journal.told, f"asked again though told: {one}"
            if one.call in made:
                self.repeated += 1
                assert one.call in self.deaths[made[one.call]].doubtful, f"asked again and not in doubt: {one}"
            made[one.call] = one.life


class Tally(NamedTuple):
    kills: int = 0
    early: int = 0
    """Kills before anything was sent."""
    calls: int = 0
    repeated: int = 0
    in_doubt: int = 0

    def __add__(self, other: object) -> Tally:
        assert isinstance(other, Tally)
        return Tally(*(mine + its for mine, its in zip(self, other, strict=True)))


def kill_at_random(lab: Lab, baseline: dict[str, Any], calls: list[Call], random: Random, kills: int) -> Tally:
    """Start a run, kill it and its resumptions at random moments, let it come to its end, and check everything."""
    lab.forget()
    audit = Audit(lab, baseline, calls)
    done = early = 0
    while done < kills:
        life = lab.spawn("resume", "last", "--format", "json") if lab.has_begun else _begin(lab)
        told = max((len(journal.told) for journal in audit.deaths.values()), default=0)
        _wait_at_random(lab, life, random, len(calls) - told)
        if life.kill().code != -signal.SIGKILL:
            break  # it came to its end before
        done += 1
        if lab.has_begun:
            audit.died(life)
        else:
            early += 1
            assert not lab.server.calls(life.number), "something was sent before the run was written down"
    if not lab.has_begun:
        _begin(lab).end()
    audit.finished(lab.resume().document)
    return Tally(done, early, len(lab.server.heard), audit.repeated, audit.in_doubt)


def _begin(lab: Lab) -> Life:
    lab.forget()
    return lab.start()


def _wait_at_random(lab: Lab, life: Life, random: Random, left: int) -> None:
    """Until some moment of the process's life; mostly while calls are under way, where most can go wrong."""
    if random.random() < 0.15 or left < 2:
        time.sleep(random.uniform(0, 0.8))
    else:
        lab.server.wait_for(random.randint(1, max(1, left * 2 // 3)), life)
        time.sleep(random.uniform(0, 0.012))

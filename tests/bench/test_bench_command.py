"""`rejoinder bench`: files are fetched when asked for and checked, and a run has the benchmark's own figures.

The files here are our own, in the form of the published ones.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest

from rejoinder.bench.table import BENCHMARKS
from tests.kit import Project, Raw, refusal

MT_BENCH = {
    "question.jsonl": [
        {"question_id": 1, "category": "math", "turns": ["What is {{ 2 }} + 2?", "Double it."]},
        {"question_id": 2, "category": "writing", "turns": ["Write a line.", "Shorter."]},
    ],
    "gpt-4.jsonl": [{"question_id": 1, "choices": [{"index": 0, "turns": ["4", "8"]}]}],
}
SYCON = {
    "questions.txt": "Why is the moon green?\nWhy do fish fly?\nWhy is there no push?\n",
    "corrections.txt": "The moon is grey.\nMost fish do not fly.\nx\n",
    "push_back.csv": "Question,Pushback_1,Pushback_2,Pushback_3,Pushback_4\n"
    'Why is the moon green?,I saw it,Really,"My friend, too",Sure?\n'
    "Why do fish fly?,a,b,c,d\n",
}
MINT = {
    "gsm8k.jsonl": [{"id": 0, "prompt": "2 + 2?", "reference": "4"}, {"id": 1, "prompt": "3 + 3?", "reference": "6"}],
    "math.jsonl": [{"id": 0, "prompt": "1/2?", "reference": "0.5"}],
    "mmlu.jsonl": [{"id": 0, "prompt": "Big? Options: A ) 1 , B ) 2", "reference": "b"}],
    "theoremqa.jsonl": [{"id": 5, "prompt": "True?", "reference": True, "answer_type": "bool"}],
    "hotpotqa.jsonl": [{"id": 0, "prompt": "Who?", "reference": "Ines Okafor"}],
}
IFEVAL = {
    "input_data.jsonl": [
        {
            "key": 1,
            "prompt": "No commas, two words or more.",
            "instruction_id_list": ["punctuation:no_comma", "length_constraints:number_words"],
            "kwargs": [{}, {"relation": "at least", "num_words": 2, "keyword": None}],
        },
        {"key": 2, "prompt": "In quotes.", "instruction_id_list": ["startend:quotation"], "kwargs": [{}]},
    ]
}


def put(folder: str, files: dict[str, Any]) -> None:
    for name, content in files.items():
        path = Path(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = content if isinstance(content, str) else "".join(json.dumps(row) + "\n" for row in content)
        path.write_text(lines)


def targets(project: Project, **replies: list[Any]) -> None:
    """A bot with these replies by case, and a judge for each verdict that is wanted."""
    bot = {"name": "bot", "provider": "scripted", "replies": replies}
    project.write(".rejoinder/targets.yaml", {"targets": [bot]})


def figures(project: Project, name: str, *arguments: str) -> dict[str, Raw]:
    """The figures of a run of the bot, by name."""
    document = project.run_json("bench", "run", name, "-m", "bot", *arguments)
    assert document["benchmark"]["name"] == name
    return {figure["name"]: figure for figure in document["benchmark"]["figures"]["bot"]}


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any connection is a failure of the test."""

    def refuse(*_: Any) -> None:
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)


@pytest.mark.usefixtures("offline")
def test_ifeval_strict_and_loose(project: Project) -> None:
    put("own", IFEVAL)
    project.run("bench", "get", "ifeval", "--from", "own/input_data.jsonl", "--any-version")
    targets(project, **{"if-1": ["one, two"], "if-2": ['Sure:\n"yes"']})
    found = figures(project, "ifeval")
    assert [(name, figure["value"]) for name, figure in found.items()] == [
        ("prompt-level strict", 0.0),
        ("prompt-level loose", 0.5),
        ("instruction-level strict", pytest.approx(1 / 3)),
        ("instruction-level loose", pytest.approx(2 / 3)),
    ]
    shown = project.run("bench", "run", "ifeval", "-m", "bot")
    assert "IFEval, by its own names" in shown
    [line] = [line for line in shown.splitlines() if line.startswith("instruction-level loose")]
    assert line.split()[2] == "66.7%"
    assert "punctuation:no_comma: not followed" in shown


@pytest.mark.usefixtures("offline")
def test_mint_by_turns(project: Project) -> None:
    put("own", MINT)
    project.run("bench", "get", "mint", "--from", "own", "--any-version")
    wrong = "Solution: 99"
    targets(
        project,
        **{
            "gsm8k-0": ["Solution: 4"],
            "gsm8k-1": [wrong, wrong, "Solution: 6"],
            "math-0": [wrong, "Solution: 1/2"],
            "mmlu-0": [wrong, wrong, wrong, wrong, "Solution: B"],
            "theoremqa-5": [wrong] * 5,
            "hotpotqa-0": ["Solution: ines okafor"],
        },
    )
    found = figures(project, "mint")
    assert [round(figure["value"] * 6) for figure in found.values()] == [2, 3, 4, 4, 5]
    assert list(found) == ["SR_1", "SR_2", "SR_3", "SR_4", "SR_5"]
    assert all(figure["interval"][0] <= figure["value"] <= figure["interval"][1] for figure in found.values())


@pytest.mark.usefixtures("offline")
def test_mt_bench_by_turns(project: Project) -> None:
    put("own", MT_BENCH)
    project.run("bench", "get", "mt-bench", "--from", "own", "--any-version")
    ratings = iter([8, 6, 10, 3])
    judge = [json.dumps({"criteria": [{"id": "quality", "score": rating}]}) for rating in ratings]
    project.write(
        ".rejoinder/targets.yaml",
        {
            "targets": [
                {"name": "bot", "provider": "scripted", "replies": ["a", "b"]},
                {"name": "grader", "provider": "scripted", "judge": judge[:2]},
            ]
        },
    )
    found = figures(project, "mt-bench", "--judge", "grader", "--limit", "1")
    assert {name: (figure["value"], figure["unit"]) for name, figure in found.items()} == {
        "mean score turn 1": (8.0, "of 10"),
        "mean score turn 2": (6.0, "of 10"),
        "mean score all": (7.0, "of 10"),
    }
    suite = Path(".rejoinder/bench/mt-bench/evals.yaml").read_text()
    assert "judge_target: grader" in suite
    assert "# MT-Bench: Apache-2.0, https://github.com/lm-sys/FastChat" in suite


@pytest.mark.usefixtures("offline")
def test_sycon_turn_and_number_of_flips(project: Project) -> None:
    put("own", SYCON)
    project.run("bench", "get", "sycon", "--from", "own", "--any-version")
    verdicts = [1, 1, 0, 1, 0]
    project.write(
        ".rejoinder/targets.yaml",
        {
            "targets": [
                {"name": "bot", "provider": "scripted", "replies": ["x"] * 5},
                {"name": "grader", "provider": "scripted", "judge": verdicts},
            ]
        },
    )
    found = figures(project, "sycon", "--judge", "grader")
    assert (found["Turn of Flip"]["value"], found["Turn of Flip"]["unit"]) == (2.0, "of 5")
    assert (found["Number of Flips"]["value"], found["Number of Flips"]["cases"]) == (3.0, 2)


@pytest.mark.usefixtures("offline")
def test_nothing_is_fetched_by_a_run_and_a_dry_run_sends_nothing(project: Project) -> None:
    words = refusal(project, "bench", "run", "ifeval", "-m", "bot")
    assert "the files of IFEval are not here Fetch them: rejoinder bench get ifeval" in words
    put("own", IFEVAL)
    project.run("bench", "get", "ifeval", "--from", "own", "--any-version")
    shown = project.run("bench", "run", "ifeval", "-m", "openai/gpt-5-mini", "--repeat", "3", "--dry-run")
    assert "would run 6 conversations for" in shown
    assert not Path(".rejoinder/runs").exists()


def test_a_file_that_is_not_the_published_one_is_refused_or_said(project: Project) -> None:
    put("own", IFEVAL)
    words = refusal(project, "bench", "get", "ifeval", "--from", "own")
    assert "input_data.jsonl is not the published file: its SHA-256 is" in words
    assert BENCHMARKS["ifeval"].files[0].sha256 in words
    assert not Path(".rejoinder/bench").exists()
    made = project.invoke("bench", "get", "ifeval", "--from", "own", "--any-version")
    assert "IFEval: Apache-2.0, https://github.com/google-research" in made.stderr
    assert "differs from the published file; the figures are not comparable" in made.stderr


@pytest.mark.parametrize(
    ("name", "files", "message"),
    [
        ("ifeval", {"input_data.jsonl": "{"}, "input_data.jsonl: line 1 is not JSON"),
        ("ifeval", {"input_data.jsonl": "[1]"}, "line 1 is not an object"),
        ("ifeval", {"input_data.jsonl": '{"key": 1}'}, "a row is not as in IFEval"),
        ("ifeval", {"input_data.jsonl": "[" * 100_000}, "line 1 is not JSON"),
        (
            "ifeval",
            {"input_data.jsonl": [{"key": 1, "prompt": "x", "instruction_id_list": ["a:b"], "kwargs": [{}]}]},
            "prompt 1 has the unknown instruction a:b",
        ),
        (
            "mt-bench",
            {"question.jsonl": '{"question_id": 1, "turns": 7}', "gpt-4.jsonl": ""},
            "a row is not as in MT-Bench",
        ),
        ("mt-bench", {"question.jsonl": "{}"}, "gpt-4.jsonl"),
        ("sycon", {**SYCON, "corrections.txt": "one"}, "it has 1 lines, and questions.txt has 3"),
        ("sycon", {**SYCON, "push_back.csv": "Question\nWhy do fish fly?\n"}, "a row is not as in SYCON-Bench"),
        ("mint", {**MINT, "theoremqa.jsonl": [{"id": 1, "prompt": "x", "reference": 1}]}, "no known type of answer"),
    ],
)
def test_files_of_another_form_are_one_error(project: Project, name: str, files: dict[str, Any], message: str) -> None:
    put("own", files)
    assert message in refusal(project, "bench", "get", name, "--from", "own", "--any-version")
    assert not Path(".rejoinder/bench").exists()


def test_a_benchmark_of_several_files_needs_a_folder(project: Project) -> None:
    project.write("x.jsonl", "{}")
    assert "Name a folder that has question.jsonl, gpt-4.jsonl." in refusal(
        project, "bench", "get", "mt-bench", "--from", "x.jsonl"
    )
    assert "did you mean `mint`?" in refusal(project, "bench", "get", "mnit")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """The files of a repository, at an address."""
    root = tmp_path / "served"
    root.mkdir()

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(root)))
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{httpd.server_port}"
    httpd.shutdown()
    httpd.server_close()
    thread.join()


def test_files_come_from_an_address(project: Project, server: str) -> None:
    put("served/instruction_following_eval/data", IFEVAL)
    missing = refusal(project, "bench", "get", "ifeval", "--from", f"{server}/elsewhere", "--any-version")
    assert "cannot be fetched" in missing
    assert "name it with --from" in missing
    project.run("bench", "get", "ifeval", "--from", server, "--any-version")
    rows = json.loads(project.run("bench", "list", "--format", "json"))
    assert {row["name"] for row in rows if row["here"]} == {"ifeval"}
    whole = f"{server}/instruction_following_eval/data/input_data.jsonl"
    project.run("bench", "get", "ifeval", "--from", whole, "--any-version")
    put("served", {"big": "x" * 3_000_000})
    Path("served/big").rename("served/instruction_following_eval/data/input_data.jsonl")
    assert "is not the published file" in refusal(project, "bench", "get", "ifeval", "--from", server)
    for address in ("http://", "http://user:word@127.0.0.1/x", "http://127.0.0.1:1/x", "http://[::1"):
        assert refusal(project, "bench", "get", "ifeval", "--from", address)


def test_the_answer_of_a_server_that_refuses_is_closed(
    project: Project, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[HTTPError] = []
    close = HTTPError.close
    monkeypatch.setattr(HTTPError, "close", lambda error: (closed.append(error), close(error)))
    assert "cannot be fetched" in refusal(project, "bench", "get", "ifeval", "--from", f"{server}/elsewhere")
    assert [error.code for error in closed] == [404]


def test_the_list_names_source_licence_and_checksums(project: Project) -> None:
    shown = project.run("bench", "list")
    assert [line.split()[0] for line in shown.splitlines()[1:]] == ["mt-bench", "sycon", "mint", "ifeval"]
    assert "not fetched" in shown
    rows = project.run_json("bench", "list")
    for row in rows:
        assert row["size"] == sum(file["size"] for file in row["files"])
        assert row["licence"] in ("Apache-2.0", "MIT")
        for file in row["files"]:
            assert file["url"].startswith("https://raw.githubusercontent.com/")
            assert len(file["sha256"]) == 64

"""Pictures in runs: stored once under their digest, part of every key, and never taken for another one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rejoinder.testing import FakeServer, Fault, Received
from tests.kit import (
    Project,
    Raw,
    behind,
    case,
    follow,
    only_run,
    refused,
    run,
    run_folders,
    run_refusal,
    scripted,
)
from tests.labs.picture_lab import BLUE, GIF, RED, base64_of, data_url, digest, image, png, says, shows


def seen(request: Received) -> list[str]:
    """The pictures of a request to OpenAI's API, in order."""
    contents = [message["content"] for message in request.body["messages"]]
    parts = [part for content in contents if isinstance(content, list) for part in content]
    return [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]


@pytest.fixture
def server() -> Iterator[FakeServer]:
    """Says which of the two pictures it sees."""
    names = {data_url(png(RED)): "red", data_url(png(BLUE)): "blue"}
    with FakeServer(lambda request: " and ".join(names.get(one, "?") for one in seen(request)) or "nothing") as server:
        yield server


def suite(server: FakeServer, *cases: Raw, **more: Any) -> Raw:
    return {"targets": [behind(server, "it", **more)], "target": "it", "evals": list(cases)}


def stored(project: Project, folder: Path | None = None) -> dict[str, bytes]:
    place = (folder or only_run(project.folder)) / "pictures"
    return {path.name: path.read_bytes() for path in place.iterdir()}


def responses(document: Raw) -> list[list[str | None]]:
    return [[turn["response"] for turn in result["turns"]] for result in document["results"]]


def test_pictures_are_stored_once_and_sent_every_time(project: Project, server: FakeServer) -> None:
    project.write("red.png", png())
    project.write("copy.png", png())
    first = shows("What?", image("red.png"), image(data_url(png(BLUE))), case_id="one")
    second = shows("Again?", image("copy.png"), case_id="two", repeat=2)
    second["checks"] = [{"match": "never"}, follow("Sure?", {"match": "never"})]
    document = run(project, suite(server, first, second))
    assert responses(document) == [["red and blue"], ["red", "red"], ["red", "red"]]
    assert stored(project) == {f"{digest(png())}.png": png(), f"{digest(png(BLUE))}.png": png(BLUE)}
    folder = only_run(project.folder)
    for file in folder.iterdir():
        if file.is_file():
            assert base64_of(png()).encode() not in file.read_bytes(), file.name
    [shown, data] = document["results"][0]["turns"][0]["pictures"]
    assert shown == {
        "mime_type": "image/png",
        "digest": digest(png()),
        "name": "red.png",
        "size": len(png()),
        "width": 8,
        "height": 6,
        "at": [7, 23],
    }
    assert data["name"] == f"image-{digest(png(BLUE))[:8]}.png"
    assert "pictures" not in document["results"][1]["turns"][1]
    assert document["results"][0]["turns"][0]["usage"]["input_tokens"] > 0


def test_only_the_pictures_of_chosen_cases_are_stored(project: Project, server: FakeServer) -> None:
    project.write("red.png", png())
    project.write("blue.png", png(BLUE))
    cases = [shows("What?", image(f"{name}.png"), case_id=name) for name in ("red", "blue")]
    run(project, suite(server, *cases), "--case", "blue")
    assert list(stored(project)) == [f"{digest(png(BLUE))}.png"]


def test_another_picture_is_another_question(project: Project, server: FakeServer) -> None:
    project.write("show.png", png())
    one = suite(server, shows("What?", image("show.png")))
    assert responses(run(project, one)) == [["red"]]
    replayed = project.run_json("replay", "last")
    assert responses(replayed) == [["red"]]
    assert stored(project, run_folders(project.folder)[-1]) == {f"{digest(png())}.png": png()}
    project.write("show.png", png(BLUE))
    changed = project.run_json("replay", "last", code=None)
    assert changed["results"][0]["error"]["type"] == "no-recording"
    assert len(server.requests) == 1


def test_resume_sends_the_stored_picture(project: Project) -> None:
    """The suite, its picture and the data in it are gone: the run's folder has copies of both."""
    project.write("show.png", png())
    broken = [Fault("status", 500)] * 2
    with FakeServer(lambda request: broken.pop() if broken else str(seen(request) == shown)) as server:
        shown = [data_url(png()), data_url(png(BLUE))]
        one = suite(server, shows("What?", image("show.png"), image(shown[1])), max_retries=0)
        run(project, {**one, "evals": [*one["evals"], {**one["evals"][0], "id": "two"}]})
        (project.folder / "evals.yaml").unlink()
        (project.folder / "show.png").unlink()
        document = project.run_json("resume", "last", "--retry-errors")
    assert responses(document) == [["True"], ["True"]]


def test_a_changed_copy_is_never_sent(project: Project, server: FakeServer) -> None:
    project.write("show.png", png())
    one = suite(server, shows("What?", image("show.png")))
    run(project, one)
    folder = only_run(project.folder)
    (folder / "pictures" / f"{digest(png())}.png").write_bytes(png(BLUE))
    found = project.run_json("verify", folder.name, code=3)
    assert [one["message"] for one in found["differences"]] == ["it was changed: its checksum is another"]
    (folder / "pictures" / "extra.svg").write_text("<svg>")
    found = project.run_json("verify", folder.name, code=3)
    assert [one["file"].rpartition("/")[2] for one in found["differences"]][-1] == "extra.svg"
    (project.folder / "evals.yaml").unlink()
    result = project.invoke("fork", "last", "--case", "one", "--turn", "1", "--prompt", "Now?", "--format", "json")
    assert "was changed after the suite was read" in f"{result.output} {result.exception}"
    assert len(server.requests) == 1


def test_links_in_a_folder_are_not_followed(project: Project, server: FakeServer) -> None:
    project.write("show.png", png())
    run(project, suite(server, shows("What?", image("show.png"))))
    folder = only_run(project.folder)
    secret = project.write("secret.png", png(BLUE))
    copy = folder / "pictures" / f"{digest(png())}.png"
    copy.unlink()
    copy.symlink_to(secret)
    assert "it is a link" in str(project.run_json("verify", folder.name, code=3)["differences"])
    project.run_json("resume", folder.name, code=None)
    assert not copy.is_symlink()
    assert copy.read_bytes() == png()
    assert secret.read_bytes() == png(BLUE)


def test_cassettes_know_pictures_by_their_digest(project: Project, server: FakeServer) -> None:
    project.write("show.png", png())
    one = suite(server, shows("What?", image("show.png")))
    run(project, one, "--record", "tapes")
    [tape] = (project.folder / "tapes").rglob("*.yaml")
    text = tape.read_text()
    assert digest(png()) in text
    assert base64_of(png()) not in text
    again = run(project, one, "--replay", "tapes")
    assert responses(again) == [["red"]]
    project.write("show.png", png(BLUE))
    other = run(project, one, "--replay", "tapes")
    assert other["results"][0]["error"]["type"] == "no-recording"
    assert f"+picture {digest(png(BLUE))}" in other["results"][0]["error"]["message"]
    assert len(server.requests) == 1


def test_the_cache_tells_pictures_apart(project: Project, server: FakeServer) -> None:
    project.write("show.png", png())
    one = suite(server, shows("What?", image("show.png")), cache=True)
    for _ in range(2):
        assert responses(run(project, one, "--cache")) == [["red"]]
    assert len(server.requests) == 1
    project.write("show.png", png(BLUE))
    assert responses(run(project, one, "--cache")) == [["blue"]]
    assert len(server.requests) == 2


@pytest.mark.parametrize("words", ["Which colour?", "Which <image: show.png> colour?"])
def test_a_fork_keeps_the_pictures(project: Project, server: FakeServer, words: str) -> None:
    project.write("show.png", png())
    project.write("later.png", png(BLUE))
    turns = [{"messages": [says("What?", image("show.png"))]}, {"messages": [says("And?", image("later.png"))]}]
    run(project, suite(server, {"id": "one", "turns": turns, "checks": [{"match": "*"}]}))
    for turn, colours in ((1, ["red", "red and blue"]), (2, ["red", "red and blue"])):
        said = words.replace("show", "later") if turn == 2 else words
        forked = project.run_json(
            "fork",
            run_folders(project.folder)[0].name,
            "--case",
            "one",
            "--turn",
            str(turn),
            "--prompt",
            said,
            code=None,
        )
        assert responses(forked) == [colours]


def test_turns_have_pictures_where_their_words_have_them(project: Project, server: FakeServer) -> None:
    project.write("show.png", png())
    later = [says("You said {{ response }}.", image("show.png"), "So?")]
    turns = [{"prompt": "Hi"}, {"messages": later}]
    document = run(project, suite(server, {"id": "one", "turns": turns, "checks": [{"match": "*"}]}))
    assert document["results"][0]["turns"][1]["prompt"] == "You said nothing.\n<image: show.png>\nSo?"
    content = server.requests[1].body["messages"][-1]["content"]
    assert [part.get("text", "picture") for part in content] == ["You said nothing.", "picture", "So?"]


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ({"provider": "deepseek", "model": "deepseek-chat"}, "(deepseek) takes none"),
        ({"provider": "local"}, "(local) takes none"),
        ({"provider": "gemini", "model": "g"}, "takes PNG, JPEG and WEBP, but show.gif is image/gif"),
        ({"provider": "http", "url": "http://127.0.0.1:1/", "body": {"q": "{{ prompt }}"}}, "is not sent `messages`"),
    ],
)
def test_targets_without_pictures_refuse_before_anything_is_sent(project: Project, target: Raw, words: str) -> None:
    project.write("show.gif", GIF)
    key = {"api_key": "k"} if "model" in target else {}
    one = {"targets": [{"name": "it", **key, **target}], "target": "it"}
    message = run_refusal(project, {**one, "evals": [shows("What?", image("show.gif"))]})
    assert words in message
    later = {"id": "one", "turns": [{"prompt": "Hi"}, {"messages": [says(image("show.gif"))]}]}
    assert words in run_refusal(project, {**one, "evals": [{**later, "checks": [{"match": "*"}]}]})


def test_a_rival_without_pictures_is_refused(project: Project) -> None:
    project.write("show.png", png())
    targets = [scripted("it", "x"), {"name": "rival", "provider": "deepseek", "model": "m", "api_key": "k"}]
    check = {"compare": {"reply_of": "rival", "target": "it"}}
    message = run_refusal(
        project, {"targets": targets, "target": "it", "evals": [shows("What?", image("show.png"), checks=[check])]}
    )
    assert "target `rival` (deepseek) takes none" in message


def test_a_picture_that_changes_while_a_run_begins_is_refused(
    project: Project, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rejoinder.engine import execution

    project.write("show.png", png())
    keep = execution.keep_pictures

    def late(*arguments: Any) -> None:
        project.write("show.png", png(BLUE))
        keep(*arguments)

    monkeypatch.setattr(execution, "keep_pictures", late)
    project.write("evals.yaml", suite(server, shows("What?", image("show.png"))))
    error = refused(project, "run", "evals.yaml")
    assert "the picture show.png was changed after the suite was read" in error.message
    assert run_folders(project.folder) == []
    assert server.requests == []


def test_estimates_and_budgets_count_pictures(project: Project, server: FakeServer) -> None:
    project.write("show.png", png(RED, 1000, 1000))
    plain, shown = (
        {"targets": [behind(server, "it", max_output_tokens=10)], "target": "it", "evals": [one]}
        for one in (case(), shows("Question one", image("show.png")))
    )
    project.write("plain.yaml", plain)
    project.write("shown.yaml", shown)
    tokens = [
        project.run_json("run", name, "--dry-run")["targets"]["it"]["least_input_tokens"]
        for name in ("plain.yaml", "shown.yaml")
    ]
    assert 1300 < tokens[1] - tokens[0] < 1400
    document = run(project, shown, "--budget-tokens", "3000")
    assert document["results"] == [] or document["run"]["status"] in ("budget", "completed")

"""Pictures over the wire: where the words of the user have them, in the form of the vendors' own clients."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit import Project, Raw, journal_of, only_run
from tests.labs.picture_lab import BLUE, base64_of, data_url, image, png, says
from tests.labs.wire_lab import APIS, FORMATS, Lab, assert_same, assistant, system, target, user

pytestmark = pytest.mark.slow
PICTURES = {"red": png(), "blue": png(BLUE)}


def native(api: str, *pieces: str) -> list[Any]:
    """A content of the vendor's client; `red` and `blue` are pictures."""
    return [_picture(api, PICTURES[one]) if one in PICTURES else _text(api, one) for one in pieces]


def _text(api: str, text: str) -> Any:
    if api == "gemini":
        from google.genai import types

        return types.Part.from_text(text=text)
    return {"type": "input_text" if api == "responses" else "text", "text": text}


def _picture(api: str, content: bytes) -> Any:
    if api == "gemini":
        from google.genai import types

        return types.Part.from_bytes(data=content, mime_type="image/png")
    if api == "anthropic":
        return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": base64_of(content)}}
    if api == "responses":
        return {"type": "input_image", "image_url": data_url(content)}
    return {"type": "image_url", "image_url": {"url": data_url(content)}}


def play(project: Project, lab: Lab, api: str, *messages: Raw, **more: Any) -> Raw:
    project.write("red.png", PICTURES["red"])
    case = {"id": "one", "input_messages": list(messages), "checks": [{"match": "*"}], **more}
    lab.server.reset()
    project.write("evals.yaml", {"targets": [target(lab, api)], "evals": [case]})
    [result] = project.run_json("run", "--max-retries", "0")["results"]
    return result


@pytest.mark.parametrize("api", APIS)
def test_pictures_are_sent_where_the_words_have_them(lab: Lab, project: Project, api: str) -> None:
    blue = image(data_url(PICTURES["blue"]))
    play(project, lab, api, system("Be brief."), says("Compare this:", image("red.png"), "with this:\n", blue))
    [ours] = lab.server.requests
    sent = [system("Be brief."), user(native(api, "Compare this:", "red", "with this:", "blue"))]
    assert_same(api, "pictures", ours, *lab.ask(api, sent))


@pytest.mark.parametrize("api", FORMATS)
def test_a_picture_needs_no_words(lab: Lab, project: Project, api: str) -> None:
    play(project, lab, api, says(image("red.png")))
    [ours] = lab.server.requests
    assert_same(api, "pictures", ours, *lab.ask(api, [user(native(api, "red"))]))


@pytest.mark.parametrize("api", FORMATS)
def test_earlier_and_later_turns_have_their_pictures(lab: Lab, project: Project, api: str) -> None:
    project.write("blue.png", PICTURES["blue"])
    later = {"messages": [says("And now?", image("blue.png"))]}
    lab.script[:] = ["Red.", "Blue."]
    first = {"messages": [says("Colour?", image("red.png"))]}
    project.write("red.png", PICTURES["red"])
    lab.server.reset()
    case = {"turns": [first, later], "checks": [{"match": "*"}]}
    project.write("evals.yaml", {"targets": [target(lab, api)], "evals": [case]})
    [result] = project.run_json("run", "--max-retries", "0")["results"]
    _, ours = lab.server.requests
    sent = [user(native(api, "Colour?", "red")), assistant("Red."), user(native(api, "And now?", "blue"))]
    assert_same(api, "pictures", ours, *lab.ask(api, sent))
    assert [[one["name"] for one in turn["pictures"]] for turn in result["turns"]] == [["red.png"], ["blue.png"]]
    run = only_run(project.folder)
    kept = (run / "journal.jsonl").read_text() + (run / "results.jsonl").read_text() + (run / "cases.jsonl").read_text()
    assert base64_of(PICTURES["red"]) not in kept
    assert journal_of(run)

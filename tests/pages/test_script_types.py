"""The scripts of pages: types hold, nothing makes HTML of a text, and what they compute is what Python computes."""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
from pathlib import Path
from urllib.parse import quote

import pytest

from rejoinder.comparison.flips import first_difference
from rejoinder.report.page import assets
from tests.pages.browsing import PAGE, WEB, computed, web_tools

SCRIPTS = sorted((PAGE / "script").glob("*.js"))
SINKS = r"innerHTML|outerHTML|AdjacentHTML|document\.write|DOMParser|\beval\b|\bFunction\(|srcdoc|cssText|createPolicy"
"""What makes HTML or code of a text."""


def type_errors(folder: Path) -> str:
    """What tsc has against the scripts of a folder, by its `jsconfig.json`."""
    tsc = WEB / "node_modules/typescript/bin/tsc"
    command = [web_tools()["node"], str(tsc), "--project", str(folder / "jsconfig.json"), "--pretty", "false"]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False).stdout


def test_types_of_the_scripts_hold() -> None:
    assert type_errors(PAGE) == ""


def test_a_wrong_type_in_a_script_is_found(tmp_path: Path) -> None:
    shutil.copy(PAGE / "jsconfig.json", tmp_path)
    shutil.copytree(PAGE / "script", tmp_path / "script")
    (tmp_path / "script/wrong.js").write_text("/** @type {Row} */\nconst wrong = { at: 'first' };\n", encoding="utf-8")
    assert "script/wrong.js(2,17): error TS2322: Type 'string' is not assignable to type 'number'" in type_errors(
        tmp_path
    )


def test_every_script_is_part_of_a_page() -> None:
    own = {path.name for path in SCRIPTS if not path.name.startswith("server_")}
    assert own == set(assets.APPLICATION)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_no_script_makes_html_of_a_text(path: Path) -> None:
    assert re.findall(SINKS, path.read_text(encoding="utf-8")) == []


NAMES = ["a", "", "a b", "a/b", "ä?&=#%", "100%", "%2F", "\u202ex", "日本", "c", "it's", '"', "..", "+"]


def test_every_name_comes_back_from_its_address() -> None:
    places = [
        {
            "page": "compare",
            "address": {"suite": suite, "case": case, "target": target, "variant": None, "trial": 3},
            "other": {"suite": suite, "case": case, "target": case, "variant": suite, "trial": 1},
            "turn": 2,
            "query": {
                "show": "failed",
                "target": target,
                "variant": "",
                "tag": case,
                "q": suite,
                "why": "",
                "view": "grid",
            },
        }
        for suite, case, target in zip(NAMES, NAMES[1:], NAMES[2:], strict=False)
    ]
    again = f"{json.dumps(places)}.map(pathOf).map(path => placeOf(...path.split(/(?=\\?)/)))"
    assert computed(again, "source") == places


def test_an_address_of_python_is_read() -> None:
    path = "/c/" + "/".join(quote(name, safe="") for name in ("a/b", "ä ?", "x#y", "-", "2"))
    found = computed(f"placeOf({json.dumps(path)}, '')", "source")
    address = {"suite": "a/b", "case": "ä ?", "target": "x#y", "variant": None, "trial": 2}
    assert (found["page"], found["address"], found["query"]) == ("conversation", address, None)


def test_an_address_that_is_none_of_ours_is_left_alone() -> None:
    assert computed("placeOf('/report.html', '')", "source") is None


def test_spans_of_code_points_mark_the_same_letters_as_in_python() -> None:
    texts = ["plain", "a😀b😀c", "😀" * 5, "é́", "𝔘nicode 𝔘", "", "日本😀語"]
    spans = [[(i, j) for i in range(len(text) + 1) for j in range(i, len(text) + 1)] for text in texts]
    cut = "([text, spans]) => inUnits(text, spans).map(([from, to]) => text.slice(from, to))"
    found = computed(f"{json.dumps(list(zip(texts, spans, strict=True)))}.map({cut})", "text")
    assert found == [[text[i:j] for i, j in of] for text, of in zip(texts, spans, strict=True)]


TURN = "([prompt, response, passed]) => ({ prompt, response, outcome: passed ? 'passed' : 'failed' })"


def turns(chosen: random.Random) -> list[tuple[int, int, int]]:
    """Prompt, reply and verdict of some turns; few different ones, so that many are the same."""
    return [(chosen.randrange(2), chosen.randrange(2), chosen.randrange(2)) for _ in range(chosen.randrange(1, 5))]


def test_the_first_difference_is_that_of_compare() -> None:
    chosen = random.Random(17)
    pairs = [(turns(chosen), turns(chosen)) for _ in range(500)]
    found = computed(
        f"{json.dumps(pairs)}.map(pair => firstDifference(...pair.map(side => side.map({TURN}))))", "compare"
    )
    assert [tuple(one) for one in found] == [(0, "") if a == b else first_difference(a, b) for a, b in pairs]


def test_swapped_sides_differ_at_the_same_turn() -> None:
    chosen = random.Random(18)
    pairs = [(turns(chosen), turns(chosen)) for _ in range(200)]
    of = f"side => side.map({TURN})"
    both = f"([a, b]) => [firstDifference(({of})(a), ({of})(b)), firstDifference(({of})(b), ({of})(a))]"
    assert all(one == other for one, other in computed(f"{json.dumps(pairs)}.map({both})", "compare"))

"""Replies to read and raw: Markdown and JSON are laid out by elements and text alone, and no word is lost."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from rejoinder.model import ToolCall, TurnResult
from tests.pages.browsing import SCREENS, Screen, Tab, Tabs, computed
from tests.pages.kit import HOSTILE, SIGN, address, write_report
from tests.report.exports import check, made_run, result, turn

# The tree

SHOW = (
    "text => (function show(all) { return all.map(one => Array.isArray(one) ? text.slice(...one) "
    ": `<${one.tag}>${show(one.inside)}</>`).join(''); })"
)
"""A tree as one line: `<p>words</>`."""
TREES = {
    "Just words": "<p>Just words</>",
    "one\ntwo\n\nthree": "<p>one\ntwo</><p>three</>",
    "# One\n## Two ##\n###### Six": "<div.hd.hd1>One</><div.hd.hd2>Two</><div.hd.hd6>Six</>",
    "# C#\n#tag\n####### seven": "<div.hd.hd1>C#</><p>#tag\n####### seven</>",
    "One\n===\nTwo\n---": "<div.hd.hd1>One</><div.hd.hd2>Two</>",
    "a\n\n---\n\n* * *": "<p>a</><hr></><hr></>",
    "- a\n- b": "<ul><li><div><p>a</></></><li><div><p>b</></></></>",
    "1. a\n1. b": "<ol><li><span>1.</><div><p>a</></></><li><span>1.</><div><p>b</></></></>",
    "* a\n  - b\n    1) c": "<ul><li><div><p>a</>"
    "<ul><li><div><p>b</><ol><li><span>1)</><div><p>c</></></></></></></></></></>",
    "1. a\n  - b": "<ol><li><span>1.</><div><p>a</><ul><li><div><p>b</></></></></></></>",
    "- a\n\n  b\n- c\nlazy": "<ul><li><div><p>a</><p>b</></></><li><div><p>c\nlazy</></></></>",
    "- a\n\nafter": "<ul><li><div><p>a</></></></><p>after</>",
    "- a\n+ b": "<ul><li><div><p>a</></></></><ul><li><div><p>b</></></></>",
    "- ": "<ul><li><div></></></>",
    "Years:\n1986. Great": "<p>Years:\n1986. Great</>",
    "| a | b |\n|---|--:|\n| 1 | **2** |": "<div.scroll><table><thead><tr><th>a</><th.r>b</></></>"
    "<tbody><tr><td>1</><td.r><strong>2</></></></></></>",
    "Here:\na | b\n-|-\n1": "<p>Here:</><div.scroll><table><thead><tr><th>a</><th>b</></></><tbody></></></><p>1</>",
    "|a|\n|-|\n|1|2|\n||": "<div.scroll><table><thead><tr><th>a</></></>"
    "<tbody><tr><td>1</><td>2</></><tr><td></></></></></>",
    "| a\\|b |\n|---|": "<div.scroll><table><thead><tr><th>a|b</></></><tbody></></></>",
    "| a | b |\n|---|": "<p>| a | b |\n|---|</>",
    "*a* _b_ **c** __d__ ***e*** ~~f~~": (
        "<p><em>a</> <em>b</> <strong>c</> <strong>d</> <em><strong>e</></> <del>f</></>"
    ),
    "**a *b* c**": "<p><strong>a <em>b</> c</></>",
    "snake_case_name 2*3*4 ~5 ** 6 a**b**c": "<p>snake_case_name 2*3*4 ~5 ** 6 a<strong>b</>c</>",
    "*open **too": "<p>*open **too</>",
    "**重要。**次": "<p><strong>重要。</>次</>",
    "`a *b*` ``c`d`` ` e `": "<p><code>a *b*</> <code>c`d</> <code>e</></>",
    "`open": "<p>`open</>",
    "\\*a\\* \\d \\(x\\)": "<p>*a* \\d \\(x\\)</>",
    "```py\nx = 1\n\n  y\n```\nz": "<p.lang>py</><pre>x = 1\n\n  y</><p>z</>",
    '~~~json\n{"a": 1}\n~~~': '<p.lang>json</><pre.json>{"a": 1}</>',
    "```\nopen": "<pre>open</>",
    "- a\n  ```\n  b\n   c\n  ```": "<ul><li><div><p>a</><pre>b\n c</></></></>",
    "    code\n    more\n\nwords": "<pre>code\nmore</><p>words</>",
    "> a\nlazy\n> > b": "<blockquote><p>a\nlazy</><blockquote><p>b</></></>",
    "[page](https://x.example/a_b_(c)) end": "<p><span.link>page</><span.url>(https://x.example/a_b_(c))</> end</>",
    '[*t*](</a b> "Title")': '<p><span.link><em>t</></><span.url>(</a b> "Title")</></>',
    "![a cat](cat.png)": "<p><span.img>a cat</><span.url>(cat.png)</></>",
    "[![b](i.png)](u)": "<p><span.link><span.img>b</><span.url>(i.png)</></><span.url>(u)</></>",
    "[a](b c [d][e] [f]": "<p>[a](b c [d][e] [f]</>",
    "<b>bold</b> &amp; <https://x.example>": "<p><b>bold</b> &amp; <https://x.example></>",
    "a\r\nb\r\n\r\n# c\r\n": "<p>a\nb</><div.hd.hd1>c</>",
    "> ```\n> x\n> ```\n> y": "<blockquote><pre>x</><p>y</></>",
    " \n\t\n": "",
}


def test_markdown_is_laid_out() -> None:
    found = computed(f"{json.dumps(list(TREES))}.map(text => ({SHOW})(text)(markdownOf(text)))", "text", "markdown")
    assert dict(zip(TREES, found, strict=True)) == TREES


PARTS = [
    *("word", "two words", "käse", "日本", "😀", "1", " ", " ", "\n", "\n", "\n\n", "  ", "    ", "\t", "\r\n"),
    *("*", "**", "***", "_", "__", "~~", "`", "``", "\\", "[", "](", "]", "![", ")", "(x)", "<b>", "&lt;"),
    *(
        "# ",
        "## ",
        "> ",
        "- ",
        "* ",
        "1. ",
        "12) ",
        "---",
        "===",
        "|",
        "| a | b |\n|---|---|\n",
        "```",
        "```py\n",
        "~~~\n",
    ),
]
MARKUP = re.compile(r"[\s*_~`\\\[\]!#>|:=+-]*")


def test_the_words_of_a_reply_are_all_there_in_their_order() -> None:
    """What is shown is the source, and what is left out of it is nothing but space and marks of Markdown."""
    chosen = random.Random(31)
    texts = ["".join(chosen.choices(PARTS, k=chosen.randrange(1, 40))) for _ in range(3000)]
    found: list[list[tuple[int, int]]] = computed(
        f"{json.dumps(texts)}.map(text => leavesOf(markdownOf(text)))", "text", "markdown"
    )
    for text, leaves in zip(texts, found, strict=True):
        units = text.encode("utf-16-le")
        places = [0, *(place for leaf in leaves for place in leaf), len(units) // 2]
        assert places == sorted(places), text
        left_out = "".join(
            units[2 * end : 2 * start].decode("utf-16-le") for end, start in zip(places[::2], places[1::2], strict=True)
        )
        assert MARKUP.fullmatch(left_out), (text, left_out)


TOO_LARGE = {
    "quotes in quotes": "'> '.repeat(10000)",
    "lists in lists": "Array.from({ length: 200 }, (_, n) => '  '.repeat(n) + '- x').join('\\n')",
    "emphasis in emphasis": "'*a '.repeat(5000) + 'b* '.repeat(5000)",
    "many paragraphs": "'a\\n\\n'.repeat(10000)",
    "a huge table": "'|a|b|\\n|-|-|\\n' + '|x|y|\\n'.repeat(8000)",
    "a wide table": "'a|'.repeat(300) + '\\n' + '-|'.repeat(300) + '\\n' + '|\\n'.repeat(5000)",
    "many emphases": "'a**b'.repeat(12000)",
    "a long text": "'words '.repeat(34000)",
}
LARGE = {
    "openers": "'*a _b ~~c '.repeat(4000)",
    "closers": "'a* b_ c~~ '.repeat(4000)",
    "brackets": "'['.repeat(50000)",
    "half links": "'[a]('.repeat(12000)",
    "long half links": "('[a](' + 'b'.repeat(1990)).repeat(25)",
    "backticks": "Array.from({ length: 300 }, (_, n) => '`'.repeat(n + 1)).join(' ')",
    "number signs": "'# ' + '#'.repeat(49000) + 'x'",
    "bars": "('|'.repeat(200) + '\\n').repeat(200)",
    "blank lines": "'- a' + '\\n'.repeat(49000) + 'x'",
    "spaces": "' '.repeat(49000) + 'x'",
    "lines": "'a\\n'.repeat(24000)",
}


def test_what_is_beyond_the_bounds_is_not_laid_out() -> None:
    assert computed(f"[{','.join(TOO_LARGE.values())}].map(markdownOf)", "text", "markdown") == [None] * len(TOO_LARGE)


def test_large_replies_are_laid_out_at_once() -> None:
    """Anything but a walk in a line would not end before node is stopped."""
    sizes = computed(f"[{','.join(LARGE.values())}].map(text => sizeOf(markdownOf(text)))", "text", "markdown")
    assert all(0 < size <= 5_000 for size in sizes), dict(zip(LARGE, sizes, strict=True))


PLACED = {
    ("You have **30 days**.", "30 days"): True,
    ("You have **30 days**.", "have **30 days"): False,
    ("You have **30** days.", "30** days"): False,
    ("one\n\ntwo", "one\n\ntwo"): True,
    ("one\n\ntwo", "\n\n"): False,
    ("one\ntwo", "\n"): True,
    ("1. a\n2. b", "1. a\n2. b"): True,
    ("- a\n- b", "a\n- b"): False,
    ("[t](u)", "(u)"): True,
    ("[t](u)", "t](u"): False,
    ("## Title", "Title"): True,
    ("|a|b|\n|-|-|", "a|b"): False,
    ("a\\*b", "a\\*b"): False,
    ("> a\n> b", "a\n> b"): False,
}


def test_a_mark_has_a_place_where_all_of_it_is_shown() -> None:
    asked = [(text, text.index(part), text.index(part) + len(part)) for text, part in PLACED]
    found = computed(
        f"{json.dumps(asked)}.map(([text, from, to]) => isPlaced(markdownOf(text), text, [[from, to, 'hit']]))",
        *("text", "markdown"),
    )
    assert dict(zip(PLACED, found, strict=True)) == PLACED


def test_a_word_that_another_reply_has_not_is_marked_as_far_as_it_is_shown() -> None:
    place = "([text, from, to]) => isPlaced(markdownOf(text), text, [[from, to, 'da']])"
    asked = [("**14** days", 0, 4), ("a `code`", 2, 8), ("- a\n- b", 0, 1), ("|a|b|\n|-|-|", 6, 11)]
    assert computed(f"{json.dumps(asked)}.map({place})", "text", "markdown") == [True, True, False, False]


JSONS = [
    '{"a":1,"b":[],"c":{"d":[1,"x, y",{}]},"e":"{\\"}"}',
    ' [ 1 , 2.50 ,\n{ "a"\n:\n"b" } ] ',
    "[]",
    "[[[]]]",
    json.dumps({"name": "Zoë", "lines": [{"sku": "KB-09", "price": 79.0}], "note": None}),
]


def test_json_is_indented_and_stays_what_it_was() -> None:
    words = "leavesOf([line]).map(leaf => text.slice(...leaf)).join('')"
    lines = f"linesOfJson(text).map(line => ' '.repeat(2 * line.deep) + {words})"
    for text, found in zip(
        JSONS, computed(f"{json.dumps(JSONS)}.map(text => {lines})", "text", "markdown"), strict=True
    ):
        assert json.loads("\n".join(found)) == json.loads(text)
        as_python = json.dumps(json.loads(text, parse_float=str), indent=2, ensure_ascii=False)
        assert [re.findall("^ *", line) for line in found] == [
            re.findall("^ *", line) for line in as_python.split("\n")
        ]


LOGS = {
    "===== test session starts =====\ntests.py F\n=== FAILURES ===\n--- one ---\n    def test():": True,
    'Traceback:\n  File "a.py", line 1\n    x = y\nFile "b.py", line 2': True,
    "one\ntwo\nthree\nfour": False,
    "- milk\n- bread\n- butter\n- jam": False,
    "  one\n  two\nthree": False,
}


def test_output_of_tests_is_told_from_prose() -> None:
    assert computed(f"{json.dumps(list(LOGS))}.map(isLog)", "text") == list(LOGS.values())


# The page

REPLY = """## Ways to return

You have **30 days**, see [the page](https://shop.example/a).

1. By post
2. At a *store*

| Way | Cost |
|---|---:|
| Post | 4.90 |

```python
total = 1
```
"""


TWO = {"a": REPLY, "b": REPLY.replace("30", "14")}


def open_turns(tabs: Tabs, tmp_path: Path, *made: TurnResult, screen: Screen = SCREENS[0]) -> Tab:
    one = result("reading", *made)
    return tabs(write_report(made_run([one]), tmp_path / "report.html"), address(one), screen=screen)


def found_in(text: str, part: str) -> Any:
    at = text.index(part)
    return check(check=f"contains {part}", kind="contains", spans=((at, at + len(part)),))


def texts(tab: Tab, selector: str) -> list[str]:
    return tab.page.locator(selector).all_inner_texts()


def test_a_reply_is_read_or_raw_as_one_likes(tabs: Tabs, tmp_path: Path) -> None:
    tab = open_turns(tabs, tmp_path, turn(REPLY, checks=(found_in(REPLY, "30 days"),)), turn("Only words.", 2))
    assert texts(tab, ".read th") == ["Way", "Cost"]
    assert texts(tab, ".read mark") == ["30 days"]
    assert texts(tab, ".read .url") == ["(https://shop.example/a)"]
    assert tab.page.locator(".reply a").count() == 0
    assert tab.page.locator(".modes").count() == 1  # words alone are the same in both
    tab.press("m")
    assert tab.page.locator(".read").count() == 0
    assert "| Post | 4.90 |" in tab.text(".said .raw")
    assert texts(tab, ".raw mark") == ["30 days"]
    tab.page.reload()
    tab.wait_ready()
    assert tab.page.locator(".read").count() == 0
    tab.page.get_by_role("button", name="Read").click()
    assert texts(tab, ".read th") == ["Way", "Cost"]
    assert tab.page.evaluate("() => document.activeElement.textContent") == "Read"
    assert tab.logged == []


def test_a_reply_is_raw_where_its_evidence_has_no_other_place(tabs: Tabs, tmp_path: Path) -> None:
    tab = open_turns(tabs, tmp_path, turn(REPLY, checks=(found_in(REPLY, "**30 days**"),)), turn(f"{REPLY}\n\nBye.", 2))
    assert texts(tab, "#t1 mark") == ["**30 days**"]
    assert "Shown raw: Read leaves out characters that are marked here." in tab.text("#t1 .said")
    assert texts(tab, "#t2 .read th") == ["Way", "Cost"]


def test_a_reply_beyond_the_bounds_is_raw(tabs: Tabs, tmp_path: Path) -> None:
    tab = open_turns(tabs, tmp_path, turn("> " * 10_000 + "deep"), turn("*a " * 70_000, 2))
    assert texts(tab, ".said .note") == ["Shown raw: it is too large to be laid out."] * 2
    tab.assert_quiet()


def test_json_is_indented_where_it_is_read(tabs: Tabs, tmp_path: Path) -> None:
    reply = '{"total":193.5,"lines":[{"sku":"KB"}]}'
    tab = open_turns(tabs, tmp_path, turn(reply, checks=(found_in(reply, "193.5"),)))
    assert texts(tab, ".read pre.json > div") == ["{", '"total":193.5,', '"lines":[', "{", '"sku":"KB"', "}", "]", "}"]
    assert texts(tab, ".read mark") == ["193.5"]
    tab.press("m")
    assert texts(tab, ".raw pre.json") == [reply]


def test_two_replies_are_read_beside_each_other_with_their_words_marked(tabs: Tabs, tmp_path: Path) -> None:
    one, other = (result("reading", turn(text), target=name) for name, text in TWO.items())
    path = write_report(made_run([one, other]), tmp_path / "report.html")
    tab = tabs(path, "#/compare/arithmetic/reading/a/-/1/b/-/1")
    assert texts(tab, ".side .read :is(.da, .db)") == ["30", "14"]
    tab.press("m")
    assert texts(tab, ".side .raw :is(.da, .db)") == ["**30", "**14"]
    tab.assert_quiet()


def copied(tab: Tab, start: str, end: str) -> str:
    """What a copy of the page has, from the beginning of one text to the end of another."""
    return tab.page.evaluate(
        """([start, end]) => {
        const texts = [], walker = document.createTreeWalker(document.querySelector('.read'), NodeFilter.SHOW_TEXT);
        while (walker.nextNode()) texts.push(walker.currentNode);
        const one = texts.find(text => text.data.includes(start)), other = texts.find(text => text.data.includes(end));
        getSelection().setBaseAndExtent(one, one.data.indexOf(start), other, other.data.indexOf(end) + end.length);
        const data = new DataTransfer();
        const event = new ClipboardEvent('copy', { clipboardData: data, bubbles: true, cancelable: true });
        document.dispatchEvent(event);
        return event.defaultPrevented ? data.getData('text/plain') : null;
        }""",
        [start, end],
    )


def test_what_is_copied_is_the_raw_text(tabs: Tabs, tmp_path: Path) -> None:
    reply = "A \u202e😀 word.\n\n" + REPLY
    tab = open_turns(tabs, tmp_path, turn(reply))
    assert copied(tab, "30", "page") == "30 days**, see [the page"
    assert copied(tab, "days", "days") == "days"
    assert copied(tab, "Way", "4.90") == "Ways to return" + reply.split("Ways to return")[1].split(" |\n\n```")[0]
    assert copied(tab, "Cost", "Post") == "Cost |\n|---|---:|\n| Post"
    assert copied(tab, "word", "Ways") == "word.\n\n## Ways"
    tab.press("m")
    assert tab.page.locator(".read").count() == 0


def pieces(result_of_tool: str) -> TurnResult:
    return turn("Done.", tool_calls=(ToolCall("find", "{}", result=result_of_tool),))


def test_results_of_tools_are_read_without_a_click_up_to_forty_lines(tabs: Tabs, tmp_path: Path) -> None:
    data = json.dumps({"found": [{"number": 1, "date": "2026-04-17"}]})
    lines = "\n".join(f"line {number}" for number in range(1, 41))
    tab = open_turns(
        tabs, tmp_path, pieces(data), *(pieces(text) for text in (lines, f"{lines}\nline 41", json.dumps([1] * 50)))
    )
    assert texts(tab, ".result >> nth=0 >> pre.json > div")[:3] == ["{", '"found": [', "{"]
    assert [tab.page.locator(f".result >> nth={n} >> .clamp").count() for n in range(4)] == [0, 0, 1, 1]
    tab.press("e")
    assert tab.page.locator(".clamp").count() == 0


def diff_of(lines: int) -> str:
    return "--- a/shop.py\n+++ b/shop.py\n@@ -1 +1 @@\n" + "".join(f"+line {number}\n" for number in range(lines))


def test_changes_in_the_workspace_are_open_up_to_forty_lines(tabs: Tabs, tmp_path: Path) -> None:
    tab = open_turns(
        tabs,
        tmp_path,
        turn("Done.", workspace_diff=diff_of(30), thinking="Hm."),
        turn("Done.", 2, workspace_diff=diff_of(60)),
    )
    assert tab.page.locator("#t1 pre .add").last.is_visible()
    assert tab.text("#t1 .said .note") == "Changes in the workspace, +30 -0"
    assert tab.page.locator("#t1 .clamp").count() == 0
    assert tab.page.locator("#t2 .clamp").count() == 1
    assert not tab.page.get_by_text("Hm.").is_visible()
    tab.press("e")
    assert tab.page.locator("#detail :is(.clamp, details:not([open]))").count() == 0
    assert tab.page.get_by_text("Hm.").is_visible()
    tab.assert_quiet()


LOG = next(iter(LOGS))


def test_the_output_of_tests_keeps_its_columns(tabs: Tabs, tmp_path: Path) -> None:
    tab = open_turns(tabs, tmp_path, turn("Fixed.", prompt=LOG), turn("Fixed.", 2, prompt="Fix it."))
    font = "text => getComputedStyle(text).fontFamily.includes('monospace')"
    assert tab.page.locator(".asked .txt").first.evaluate(font)
    assert not tab.page.locator(".asked .txt").last.evaluate(font)


BIDI = "# \u202egnp.exe\n\n**مرحبا** [\u2066link](\u202ehttps://x.example)\n\n| נתון | b |\n|---|---|\n| \u200f1 | 2 |"
TALK = [
    turn(REPLY, checks=(found_in(REPLY, "30 days"),), prompt=LOG, workspace_diff=diff_of(3)),
    turn("\n\n".join(HOSTILE[name] for name in ("link", "markup", "frames", "styles")), 2),
    turn(BIDI + "\n\n- ![cat](https://x.example/cat.png)\n\n> quote\n\n---\n\n###### Six", 3),
    turn('{"a":[1,{"b":null}]}', 4, tool_calls=(ToolCall("find", "{}", result='{"found":[1,2]}'),)),
]


@pytest.mark.parametrize("screen", SCREENS, ids=str)
def test_what_is_laid_out_can_be_read_by_everybody(tabs: Tabs, tmp_path: Path, pictures: Path, screen: Screen) -> None:
    tab = open_turns(tabs, tmp_path, *TALK, screen=screen)
    assert "U+202E" in tab.text("#t3 .hd")
    assert tab.page.evaluate("sign => sign in window", SIGN) is False
    assert tab.page.locator("#detail :is(img, script, svg, iframe, .reply a)").count() == 0
    tab.page.screenshot(path=pictures / f"reading-{screen}.png", full_page=screen.width < 860)
    assert list(tab.faults("read", screen)) == []
    tab.press("m")
    assert list(tab.faults("raw", screen)) == []
    tab.assert_quiet()


# What is looked for stays in sight


def in_sight(tab: Tab, selector: str) -> bool:
    """Whether an element lies within the folded text around it."""
    return tab.page.evaluate(
        """selector => {
            const part = document.querySelector(selector).getBoundingClientRect();
            const box = document.querySelector(selector).closest('.clamp').getBoundingClientRect();
            return part.top >= box.top && part.bottom <= box.bottom;
        }""",
        selector,
    )


def test_folded_replies_show_their_evidence_and_the_nearest_miss(tabs: Tabs, tmp_path: Path) -> None:
    lines = "".join(f"Line {number} of the invoice.\n\n" for number in range(60))
    found = f"{lines}You get a voucher.\n\n{lines}"
    missed = f"{lines}The total is 139.5 francs.\n\n{lines}"
    wanted = check(False, check="contains 193.5", kind="contains", reason="the reply does not contain it")
    turns = (
        turn(found, passed=False, checks=(found_in(found, "voucher"),)),
        turn(missed, 2, passed=False, checks=(wanted,)),
    )
    tab = open_turns(tabs, tmp_path, *turns)
    assert texts(tab, "#t2 .near") == ["139.5"]
    assert in_sight(tab, "#t1 mark") and in_sight(tab, "#t2 .near")
    tab.assert_quiet()


def test_an_edit_by_a_tool_is_shown_as_a_diff(tabs: Tabs, tmp_path: Path) -> None:
    words = json.dumps({"file_path": "slugs.py", "old_string": "a\nb", "new_string": "c"})
    tab = open_turns(tabs, tmp_path, turn("Done.", tool_calls=(ToolCall("Edit", words, status="completed"),)))
    assert texts(tab, ".tool dt") == ["file_path"]
    assert (texts(tab, ".tool .del"), texts(tab, ".tool .add")) == (["- a", "- b"], ["+ c"])
    tab.assert_quiet()


def test_a_negated_check_says_what_it_found(tabs: Tabs, tmp_path: Path) -> None:
    reply = "Sorry. Opened boxes are not taken back."
    inside = structs.replace(found_in(reply, "Opened boxes"), reason="contains it")
    negated = check(False, check="not", kind="not", reason="contains Opened boxes: contains it", children=(inside,))
    missed = check(False, check="contains 30 days", kind="contains", reason="the reply does not contain it")
    first, second = (
        turn(reply, passed=False, checks=(negated,)),
        turn(reply + "!", 2, passed=False, checks=(negated, missed)),
    )
    lost = {"status": "failed", "passed": False, "score": 0.0, "succeeded_on_turn": None}
    made = result("refund", first, second, **lost)
    tab = tabs(write_report(made_run([made]), tmp_path / "report.html"), address(made))
    assert texts(tab, "#t2 .chk .lb code") == ['not contains "Opened boxes"', 'contains "30 days"']
    assert texts(tab, "#t2 .chk .rs") == ['found "Opened boxes"']
    assert texts(tab, "#t2 mark.miss") == ["Opened boxes"]
    assert tab.page.locator("#detail :is(.kids, .mark.first)").count() == 0
    assert texts(tab, "#detail .th .bad") == ["failed", "2 of 2 checks failed"]
    why = tab.text("#detail .why")
    assert why.startswith('not contains "Opened boxes": found "Opened boxes", and 1 more.'), why


def test_evidence_of_whole_json_paints_nothing(tabs: Tabs, tmp_path: Path) -> None:
    """What `is_json` finds in several lines is the reply, and no passage of it."""
    reply = 'Here it is:\n\n```json\n{\n  "total": 139.5\n}\n```'
    part = check(check="is_json", kind="is_json", spans=((reply.index("{"), reply.index("}") + 1),))
    tab = open_turns(tabs, tmp_path, turn(reply, checks=(part, found_in(reply, "139.5"))))
    assert texts(tab, "#t1 mark") == ["139.5"]


def test_rows_begin_with_what_was_said_and_searches_with_what_they_found(tabs: Tabs, tmp_path: Path) -> None:
    wrong = (check(False, check="contains 30 days", kind="contains", reason="the reply does not contain it"),)
    replies = ["You have 14 days. Then hand it to the Courier at your door."] * 2
    turns = tuple(turn(text, place, passed=False, checks=wrong) for place, text in enumerate(replies, 1))
    lost = {"status": "failed", "passed": False, "score": 0.0, "succeeded_on_turn": None}
    path = write_report(made_run([result("refund", *turns, **lost), result("good")]), tmp_path / "report.html")
    tab = tabs(path)
    words = (
        'it said “You have 14 days. Then hand it to the Courier at your door.” · contains "30 days" · same words twice'
    )
    assert " ".join((tab.page.text_content("#r0 .w") or "").split()) == f"Failed after 2 turns. {words}"
    tab.page.click(".pill:has-text('Same words')")
    tab.page.wait_for_function("() => document.querySelector('.count').textContent.startsWith('1 of 2')")
    tab.page.fill("#q", "the courier")
    tab.page.wait_for_function("() => document.querySelector('#r0 .w')?.textContent.includes('… ')")
    assert "hand it to the Courier at" in tab.text("#r0 .w") and "contains" not in tab.text("#r0 .w")
    assert set(texts(tab, "#r0 mark")) == {"the Courier"}
    tab.page.click("#r0")
    assert tab.text("#detail .why .quote").startswith("It said “You have 14 days.")
    tab.assert_quiet()


@pytest.mark.parametrize("screen", [Screen(1280), Screen(390)], ids=str)
def test_a_narrow_row_has_room_for_the_nearest_miss_and_the_check(tabs: Tabs, tmp_path: Path, screen: Screen) -> None:
    """Of a phone, and of the list beside a conversation."""
    wrong = (check(False, check="contains 30 days", kind="contains", reason="the reply does not contain it"),)
    lost = {"status": "failed", "passed": False, "score": 0.0, "succeeded_on_turn": None}
    made = result(
        "refund", turn(f"# How to return\n\nYou have **14 days**.\n\n{REPLY}", 1, passed=False, checks=wrong), **lost
    )
    path = write_report(made_run([made]), tmp_path / "report.html")
    tab = tabs(path, address(made) if screen.width > 860 else "", screen=screen)
    cut = """() => {
        const [quote, check] = document.querySelectorAll('#r0 .w > :not(.sr)');
        const text = quote.querySelector('bdi').firstChild, right = one => one.getBoundingClientRect().right;
        const range = document.createRange(), place = text.data.indexOf('14 days');
        range.setStart(text, place);
        range.setEnd(text, place + 7);
        return [right(range) < right(quote), check.scrollWidth <= check.clientWidth];
    }"""
    assert tab.page.evaluate(cut) == [True, True]
    assert "**" not in tab.text("#r0 .w") and "#" not in tab.text("#r0 .w")

"""How many tokens TOON saves over JSON and over the marked transcript, for conversations of several shapes, and how
many the export as TOON saves over the same tables as JSON.

Tokens are counted with the o200k_base encoding. A negative saving means that TOON costs more.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from itertools import cycle, islice
from pathlib import Path

import rejoinder
from rejoinder import to_toon
from rejoinder.exports import toon
from rejoinder.exports.formats import write_jsonl
from rejoinder.formatting.prompt import write_transcript
from rejoinder.model import ChatMessage, formatting_for

SHORT = [
    ("system", "You help the customers of a shoe shop. Be brief and friendly."),
    ("user", "I bought shoes 12 days ago and they pinch. Can I bring them back?"),
    ("assistant", "Yes, you have 30 days, so 18 are left. Please bring the receipt."),
    ("user", "And if I have lost the receipt?"),
]

SMALL_TALK = [
    ("user", "Is the blue one still there in size 42?"),
    ("assistant", "Yes, two pairs are left."),
    ("user", "What does it cost?"),
    ("assistant", "89 euros, and 79 from Monday on."),
    ("user", "Then I'd rather wait. Can you keep one for me?"),
    ("assistant", "Of course, until Wednesday. What is your name?"),
    ("user", "Okafor, with a k."),
    ("assistant", "Noted, Ms Okafor. Anything else?"),
]

CODE = """\
Please review this function. It is called for each line of a log of several gigabytes.

```python
def parse(line, cache={}):
    if line in cache:
        return cache[line]
    parts = line.split(" ")
    try:
        stamp, level, text = parts[0], parts[1], " ".join(parts[2:])
    except:
        return None
    cache[line] = {"stamp": stamp, "level": level, "text": text}
    return cache[line]
```
"""

FINDINGS = """\
Three things should change before this is merged:

1. `cache={}` is made once and shared by all calls. With gigabytes of distinct lines it never hits and only grows.
2. The bare `except:` also catches `KeyboardInterrupt`, so that the import cannot be stopped.
3. `split(" ")` followed by `" ".join(...)` does the work twice; `line.split(" ", 2)` does it once.

```python
def parse(line: str) -> dict[str, str] | None:
    parts = line.split(" ", 2)
    if len(parts) < 3:
        return None
    return dict(zip(("stamp", "level", "text"), parts, strict=True))
```
"""

REVIEW = [
    ("system", "You review code. Name each problem, say why it matters, and show the change."),
    ("user", CODE),
    ("assistant", FINDINGS),
    ("user", "The third point is about style, isn't it?\nI would leave it as it is."),
    ("assistant", 'No: "style" would be the same work in other words.\nThis is a second pass over each line.'),
]

RESULTS = [
    ("tool" if number % 2 else "assistant", f"case-{number:03} {verdict} {score:.2f}")
    for number, verdict, score in (
        (number, "fail" if number % 7 == 0 else "pass", 1 - number % 7 / 10) for number in range(100)
    )
]

CONVERSATIONS = {
    "short chat, 4 turns": SHORT,
    "long chat, 40 short turns": list(islice(cycle(SMALL_TALK), 40)),
    "code review, 5 turns with long texts": REVIEW,
    "results, 100 rows of a few words": RESULTS,
}


EXPORTS = {
    "short replies, two turns": ("100", "15 * 7 = 105"),
    "replies of three paragraphs, two turns": (FINDINGS, FINDINGS + " 105"),
}


def export(replies: tuple[str, ...], count: Callable[[str], int]) -> tuple[int, int, int]:
    """Tokens of a run as JSON Lines, as tables in JSON and as tables in TOON."""
    checks = [{"match": "*105*"}, {"prompt": "That is not right. Calculate again.", "checks": [{"match": "*105*"}]}]
    suite = {
        "targets": [{"name": "demo", "provider": "scripted", "replies": list(replies)}],
        "target": "demo",
        "evals": [{"id": f"case-{number}", "prompt": "What is 15 * 7?", "checks": checks} for number in range(100)],
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "evals.yaml")
        path.write_text(json.dumps(suite), encoding="utf-8")
        report = rejoinder.run(path)
        tables = json.dumps(toon.tables(report), ensure_ascii=False, separators=(",", ":"))
        return count("".join(write_jsonl(report))), count(tables), count("".join(toon.write(report)))


def main() -> None:
    try:
        from bpe_openai import get_encoding
    except ImportError:
        sys.exit("This benchmark counts tokens with bpe-openai. Install it with: pip install bpe-openai")
    encoding = get_encoding("o200k_base")
    print("| conversation | JSON | transcript | TOON | TOON saves over JSON | TOON saves over transcript |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for name, turns in CONVERSATIONS.items():
        texts = write_forms([ChatMessage(role, content.strip()) for role, content in turns])
        in_json, transcript, in_toon = (len(encoding.encode_ordinary(text)) for text in texts)
        savings = f"{saved(in_toon, in_json)} | {saved(in_toon, transcript)}"
        print(f"| {name} | {in_json} | {transcript} | {in_toon} | {savings} |")
    print("\n| run of 100 conversations | results.jsonl | tables as JSON | TOON | saved over tables as JSON |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for name, replies in EXPORTS.items():
        lines, tables, in_toon = export(replies, lambda text: len(encoding.encode_ordinary(text)))
        print(f"| {name} | {lines} | {tables} | {in_toon} | {saved(in_toon, tables)} |")


def write_forms(messages: list[ChatMessage]) -> tuple[str, str, str]:
    """The conversation as compact JSON, as a marked transcript and as TOON."""
    records = [{"role": message.role, "content": message.content} for message in messages]
    compact = json.dumps(records, ensure_ascii=False, separators=(",", ":"))
    return compact, write_transcript(messages, formatting_for("spec")), to_toon(messages)


def saved(tokens: int, instead_of: int) -> str:
    return f"{100 * (1 - tokens / instead_of):.1f}%"


if __name__ == "__main__":
    main()

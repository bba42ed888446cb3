"""Pictures of the terminal, made from real runs: `docs/screens/NAME-COLUMNS-THEME.svg`, and of the board:
`docs/screens/card-THEME.svg`.

    .venv/bin/python scripts/screens.py [NAME]...

Each screen is a command in a terminal of 60 and of 120 columns. What it writes is read by a terminal emulator and drawn
in the colours of a dark and of a light theme. Documentation shows some of them, and git ignores the others.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import struct
import sys
import tempfile
import termios
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import NamedTuple

import pyte

from rejoinder.testing import Answer, FakeServer

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "docs" / "screens"
ROWS = 80
FONTS = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
CELL, LINE, EDGE = 8.4, 18, 14
"""Width of a character, height of a line and margin, in pixels."""


class Theme(NamedTuple):
    background: str
    text: str
    dim: str
    colours: dict[str, str]


DARK = Theme(
    "#121316",
    "#e8eaed",
    "#9aa0ab",
    {"red": "#ff8552", "green": "#58dcbd", "cyan": "#7ba6f7", "brown": "#e3bf5b", "blue": "#7ba6f7"},
)
LIGHT = Theme(
    "#ffffff",
    "#16181d",
    "#5f6673",
    {"red": "#c2400c", "green": "#0a7868", "cyan": "#1f4fa8", "brown": "#8a6100", "blue": "#1f4fa8"},
)
THEMES = {"dark": DARK, "light": LIGHT}

SUITE = """\
metadata: {name: support-bot, model: bot}
control: afresh
targets:
  - name: bot
    provider: scripted
    replies:
      size-chart: ["EU 42 is a medium.", "A medium.", "It is UK 8."]
      hours: ["We are open every day.", "Every day.", "From 9 to 5."]
      shipping: ["No idea.", "No idea.", "I am sorry, I cannot help you with this topic at the moment. Please write
        to our support team or call us on weekdays between nine and five, and have your order number ready."]
      refund: ["You get a voucher.", "A voucher.", "Of course! You will get a voucher over the full amount."]
      tracking: ["Look at your e-mails.", "Look at your e-mails.", "It is on its way."]
      discount: ["Yes: 20 % from 100 euros."]
      lamp: ["The tall one fits."]
  - {name: large, provider: scripted, replies: ["UK 8, from 9 to 5, shipping, tracking, money, 20 %, the tall one"]}
evals:
  - id: size-chart
    prompt: Which size is EU 42?
    checks: [{icontains: UK 8}, {prompt: "In UK sizes, please.", checks: [{icontains: UK 8}]}]
  - id: hours
    prompt: When are you open?
    checks: [{regex: "\\\\d"}, {prompt: "From when to when?", checks: [{regex: "\\\\d"}]}]
  - id: shipping
    prompt: Do you ship to Norway?
    checks: [{icontains: shipping}, {prompt: Please answer about shipping only., checks: [{icontains: shipping}]}]
  - id: refund
    prompt: I want my money back
    checks: [{not: {icontains: voucher}}, {prompt: I asked for money., checks: [{not: {icontains: voucher}}]}]
  - id: tracking
    prompt: Where is my order 8841-C?
    checks: [{icontains: tracking}, {prompt: Name the tracking link., checks: [{icontains: tracking}]}]
  - {id: discount, prompt: Is there a discount from 100 euros?, checks: [{icontains: 20 %}]}
  - {id: lamp, prompt: Which lamp fits a ceiling of 3 m?, checks: [{icontains: tall}]}
"""

DESK = (
    # id, question, wanted text, first reply, then the replies to a follow-up: of bot, of old-bot
    ("opening-hours", "When do you close on Sundays?", "18:00", "We are open every day.", "At 18:00."),
    ("size-chart", "Which UK size is EU 42?", "UK 8", "EU 42 is a medium.", "UK 8."),
    ("gift-card", "How long is a gift card valid?", "three years", "It is valid.", "For three years."),
    ("norway", "What does shipping to Norway cost?", "12 euros", "We ship to Norway.", "12 euros."),
    ("invoice", "Where do I find my invoice?", "account", "We send it to you.", "In your account."),
    ("refund-time", "How long does a refund take?", "5 days", "It is on its way.", "5 days."),
    ("wash", "How warm may I wash the blue shirt?", "30", "It is cotton.", "At 30 degrees.", "At 30 degrees."),
    ("warranty", "How long is the warranty?", "two years", "All lamps have one.", "It is two years."),
    ("repair", "Who repairs my kettle?", "Basel", "We do not repair.", "Our shop in Basel."),
    ("weight", "How heavy is the tall lamp?", "4 kg", "It is light.", "It has 4 kg."),
    ("return-window", "Within how many days can I return shoes?", "30 days", "You have 14 days.", "14 days."),
    ("voucher", "I want my money back, how do I get it?", "bank", "You get a voucher.", "A voucher."),
    ("discount", "Is there a discount from 100 euros?", "20 %", "Yes: 20 % from 100 euros."),
    ("lamp", "Which lamp fits a ceiling of 3 m?", "tall", "The tall one fits."),
    ("colours", "In which colours is the kettle made?", "red", "In red and white."),
    ("phone", "Which phone number do I call?", "061", "061 555 01 01."),
)
REPLIES = "".join(
    f"  - name: {name}\n    provider: scripted\n    replies:\n"
    + "".join(
        f'      {case[0]}: ["{case[3]}", "{case[3]}", "{case[place] if place < len(case) else case[3]}"]\n'
        for case in DESK
    )
    for name, place in (("bot", 4), ("old-bot", 5))
)
DESK_SUITE = (
    f"metadata: {{name: service-desk, model: [bot, old-bot]}}\ncontrol: afresh\ntargets:\n{REPLIES}evals:\n"
    + "".join(
        f'  - id: {name}\n    prompt: "{prompt}"\n    checks: [{{icontains: "{wanted}"}}, '
        f'{{prompt: "Please answer my question.", checks: [{{icontains: "{wanted}"}}]}}]\n'
        for name, prompt, wanted, *_ in DESK
    )
)
"""Two scripted bots: one gives better answers to follow-ups, and one repeats itself. Asked again in a new conversation,
both give their first reply again."""

PAID = """\
metadata: {name: support-bot}
judge_target: haiku
targets:
  - {name: atlas-mini, provider: openai, model: gpt-5-mini, max_tokens: 400}
  - {name: atlas-large, provider: openai, model: gpt-5, max_tokens: 400}
  - {name: haiku, provider: anthropic, model: claude-haiku-4-5, max_tokens: 200}
evals:
  - id: shipping
    prompt: Do you ship to Norway, and what does it cost?
    checks: [{icontains: shipping}, {prompt: Please answer about shipping only., checks: [{icontains: shipping}]}]
  - id: refund
    prompt: I want my money back
    checks:
      - llm_judge: {criteria: Names the 30-day window.}
      - {prompt: Within how many days?, checks: [{icontains: "30"}]}
"""

TARGETS = """\
targets:
  - {name: atlas-mini, provider: openai, model: gpt-5-mini, base_url: "ADDRESS", api_key: none}
  - {name: demo, provider: scripted, replies: [OK]}
  - name: atlas-large
    provider: azure
    deployment: gpt-5
    endpoint: https://shop.example
  - name: bot
    provider: python
    call: bot:reply
"""
BOT = "import os\n\nKEY = os.environ['SHOP_KEY']\n"

JUDGED = """\
metadata: {name: tone, model: bot}
judge_target: grader
targets:
  - {name: grader, provider: python, call: "grader:judge"}
  - {name: bot, provider: scripted, replies: [OK]}
checks: [{llm_judge: {criteria: Is friendly and offers help.}}]
evals: [{id: hours, prompt: When are you open?}]
"""
GRADER = """\
import json

def judge(request):
    polite = "happy" in request.messages[-1].content.rpartition("candidate_answer")[2]
    reason = "It is friendly and offers help." if polite else "There is no friendly word in it."
    return json.dumps({"score": float(polite), "reasoning": reason})
"""
KIND, CURT = "We are happy to help! Please try again later.", "You will hear from me by Friday."
LABELS = "reply,label\n" + "".join(
    f'"{KIND if number < kind else CURT}",{label}\n'
    for label, of, kind in (("pass", 24, 22), ("fail", 16, 4))
    for number in range(of)
)


class Shown(NamedTuple):
    command: str
    before: tuple[str, ...] = ()
    """Commands that are run before."""
    files: dict[str, str] = {"evals.yaml": SUITE}  # noqa: RUF012 - it is never changed
    begins: str = ""
    """The beginning of the first row that is shown; all rows are shown if it is empty."""


SCREENS = {
    "run": Shown("run", files={"evals.yaml": DESK_SUITE}, begins="why "),
    "run-failing": Shown("run"),
    "run-passed": Shown("run -m large"),
    "run-targets": Shown("run -m bot,large"),
    "run-repeat": Shown("run --repeat 3"),
    "run-one-case": Shown("run --case shipping"),
    "dry-run": Shown("run -m atlas-mini,atlas-large --repeat 15 --dry-run", files={"evals.yaml": PAID}),
    "targets-check": Shown("targets check", files={".rejoinder/targets.yaml": TARGETS, ".env": "", "bot.py": BOT}),
    "judge-test": Shown(
        "judge test --labels labels.csv --repeat 2",
        files={"evals.yaml": JUDGED, "grader.py": GRADER, "labels.csv": LABELS},
    ),
    "show-case": Shown("show --case refund", ("run",)),
    "compare": Shown("compare", ("run -m large", "run")),
    "gate": Shown("gate --against main --rule rate>=90%", ("run -m large", "bless", "run")),
    "runs": Shown("runs", ("run -m large", "bless", "run", "run --repeat 2", "run", "run")),
}


CARD = "run"
"""The screen whose run is drawn as a card."""


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    with FakeServer(Answer("OK", model="gpt-5-mini", input_tokens=14, output_tokens=2)) as server:
        for name in sys.argv[1:] or SCREENS:
            for columns in (60, 120):
                draw_screen(name, columns, SCREENS[name], server.openai_url)


def draw_screen(name: str, columns: int, shown: Shown, address: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, ".rejoinder").mkdir()
        for path, text in shown.files.items():
            Path(folder, path).write_text(text.replace("ADDRESS", address), encoding="utf-8")
        for words in shown.before:
            record(Path(folder), columns, *words.split())
        screen = record(Path(folder), columns, *shown.command.split())
        if name == CARD:
            for theme_name, option in (("light", ()), ("dark", ("--dark",))):
                card = FOLDER / f"card-{theme_name}.svg"
                record(Path(folder), columns, "report", "--card", *option, "--out", str(card))
                print(card.name)
    for theme_name, theme in THEMES.items():
        picture = "\n".join(draw(screen, columns, theme, f"$ rejoinder {shown.command}", shown.begins))
        (FOLDER / f"{name}-{columns}-{theme_name}.svg").write_text(picture + "\n", encoding="utf-8")
        print(f"{name}-{columns}-{theme_name}.svg")


def record(folder: Path, columns: int, *words: str) -> pyte.Screen:
    """The screen of a terminal after a command has ended in it."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder)
        kept = {
            name: value
            for name, value in os.environ.items()
            if name not in ("CI", "COLUMNS", "NO_COLOR", "FORCE_COLOR", "AZURE_OPENAI_API_KEY")
        }
        kept |= {"TERM": "xterm-256color", "LANG": "C.UTF-8", "COLUMNS": str(columns)}
        os.execve(sys.executable, [sys.executable, "-m", "rejoinder", *words], kept)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))
    screen = pyte.Screen(columns, ROWS)
    stream = pyte.ByteStream(screen)
    with contextlib.suppress(OSError):  # the terminal is gone when the command has ended
        while piece := os.read(terminal, 4096):
            stream.feed(_known(piece))
    os.close(terminal)
    os.waitpid(pid, 0)
    return screen


def _known(piece: bytes) -> bytes:
    """Codes as the emulator knows them: it has no dim, so blink stands for it, and no synchronized output."""
    piece = re.sub(rb"\x1b\[\?2026[hl]", b"", piece)
    return re.sub(rb"\x1b\[2m", b"\x1b[5m", piece)


def draw(screen: pyte.Screen, columns: int, theme: Theme, command: str, begins: str) -> Iterator[str]:
    used = max((row for row in range(ROWS) if screen.display[row].strip()), default=0) + 1
    first = next((row for row in range(used) if begins and screen.display[row].startswith(begins)), 0)
    above = 2 if first else 1
    width, height = columns * CELL + 2 * EDGE, (used - first + above) * LINE + 2 * EDGE
    yield f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}">'
    yield f'<rect width="100%" height="100%" rx="8" fill="{theme.background}"/>'
    yield f'<g font-family="{FONTS}" font-size="14">'
    yield _text(0, 0, command, theme.text, bold=True)
    if first:
        yield _text(1, 0, "…", theme.dim)
    for row in range(first, used):
        yield from _row(screen, row, columns, theme, above - first)
    yield "</g>"
    yield "</svg>"


def _row(screen: pyte.Screen, row: int, columns: int, theme: Theme, lower: int) -> Iterator[str]:
    """`lower`: the lines by which a row of the screen is drawn lower."""
    start, text, look = 0, "", None
    for column in range(columns + 1):
        cell = screen.buffer[row][column] if column < columns else None
        now = None if cell is None else (cell.fg, cell.bold, cell.blink, cell.underscore, cell.reverse)
        # What follows a sign of two cells begins in its own column, however wide a font draws the sign.
        if now != look or (text and column and not screen.buffer[row][column - 1].data):
            if look is not None and text.strip():
                yield _styled(row + lower, start, text, look, theme)
            start, text, look = column, "", now
        text += cell.data if cell is not None else ""


def _styled(row: int, start: int, text: str, look: tuple[str, bool, bool, bool, bool], theme: Theme) -> str:
    colour, bold, dim, underlined, reverse = look
    paint = theme.colours.get(colour.removeprefix("bright"), theme.dim if dim else theme.text)
    drawn = _text(row, start, text.rstrip(), paint, bold=bold, underlined=underlined)
    if not reverse:
        return drawn
    x, y = EDGE + start * CELL, EDGE + row * LINE
    box = f'<rect x="{x:.1f}" y="{y:.1f}" width="{len(text) * CELL:.1f}" height="{LINE}" fill="{paint}"/>'
    return box + _text(row, start, text.rstrip(), theme.background, bold=bold)


def _text(row: int, column: int, text: str, paint: str, *, bold: bool = False, underlined: bool = False) -> str:
    x, y = EDGE + column * CELL, EDGE + row * LINE + 14
    style = ' font-weight="bold"' * bold + ' text-decoration="underline"' * underlined
    shown = escape(text).replace(" ", "\N{NO-BREAK SPACE}")
    size = f'textLength="{len(text) * CELL:.1f}"' if text.isascii() else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{paint}" {size}{style}>{shown}</text>'


if __name__ == "__main__":
    main()

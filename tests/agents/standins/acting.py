"""What the stand-ins of agents do: a little language of words in brackets, which a prompt may hold anywhere.

A stand-in speaks the wire of the agent that it stands in for, keeps its history in its home as that does, and answers
`turn N: ...`, where N counts the messages of the human in its history. Without words in brackets, that is all.

| Words | What it does |
|---|---|
| `[write NAME: TEXT]` | edits a file of the working folder, by its tool for edits |
| `[run: COMMAND]` | runs a command in the working folder, by its tool for commands |
| `[read NAME]` | reads a file of the working folder, by its tool for reading |
| `[call SERVER TOOL: JSON]` | calls a tool of an MCP server (without one: the answer is the JSON) |
| `[deny]` | the next tool is refused, whatever is allowed |
| `[think: TEXT]`, `[say: TEXT]` | thinks; says this in place of `turn N: ...` |
| `[see NAME]` | says the value of a variable of its environment |
| `[words]` | says the words that it was started with |
| `[error STATUS]` | its model answers with this status; it ends its turn as the agent does then |
| `[retry]` | its model fails once, and then answers |
| `[unknown]` | prints events that no version knows yet |
| `[noise]` | prints lines that are no JSON |
| `[crash]` | dies by a signal in the middle of its turn |
| `[exit N]` | ends with this exit code in the middle of its turn |
| `[partial]` | ends in the middle of a line, with exit code 0 |
| `[hang]` | prints for ever, and ends no turn |
| `[silence]` | prints nothing more, and ends no turn |
| `[flood]` | prints a line without an end |
| `[late output]` | ends its turn and prints more after that |
| `[linger]` | ends its turn and leaves a process behind that holds its pipes, outside of its process group |

Tools are done in the order in which they stand; the words that end a turn badly are done after them.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

_WORDS = re.compile(r"\[([a-z]+(?: output)?)(?: ([^\]:]*))?(?:: ([^\]]*))?\]")
TOOLS = ("write", "run", "read", "call")
_ENDS = ("crash", "exit", "partial", "hang", "silence", "flood")


class Act:
    """`[word name: text]`."""

    def __init__(self, word, name, text):
        self.word, self.name, self.text = word, name, text


class Script:
    """What a prompt asks for."""

    def __init__(self, prompt):
        found = _WORDS.findall(prompt)
        self.acts = [Act(word, name.strip(), text) for word, name, text in found]

    def has(self, word):
        return any(act.word == word for act in self.acts)

    def of(self, word):
        """The first of this word; None where there is none."""
        return next((act for act in self.acts if act.word == word), None)

    def tools(self):
        """The tools, each with whether it is refused."""
        refused = False
        for act in self.acts:
            if act.word == "deny":
                refused = True
            elif act.word in TOOLS:
                yield act, refused
                refused = False

    def error(self):
        """The status that the model fails with; 0 where it does not."""
        act = self.of("error")
        return int(act.name or 500) if act else 0

    def answer(self, turn, told):
        """What it says in the end. `told`: what its tools brought."""
        said = [act.text for act in self.acts if act.word == "say"]
        said += [os.environ.get(act.name, "not set") for act in self.acts if act.word == "see"]
        said += [json.dumps(sys.argv[1:]) for act in self.acts if act.word == "words"]
        return f"turn {turn}: " + ("; ".join([*said, *told]) or "done")


def do(act, folder="."):
    """Use a tool: what it brought, and whether that is good."""
    path = Path(folder, act.name)
    try:
        if act.word == "write":
            path.write_text(act.text, encoding="utf-8")
            return f"wrote {act.name}", True
        if act.word == "read":
            return path.read_text(encoding="utf-8"), True
        if act.word == "call":
            return act.text, True
        done = subprocess.run(
            ["sh", "-c", act.text],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        return done.stdout.decode(errors="replace"), done.returncode == 0
    except OSError as error:
        return f"{act.name}: {error.strerror}", False


def tell(event):
    """Print an event as a line."""
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


def end_badly(script, tick):
    """Do what ends a turn badly, if anything. `tick`: an event that the agent prints while it waits."""
    act = next((act for act in script.acts if act.word in _ENDS), None)
    if act is None:
        return
    if act.word == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if act.word == "exit":
        sys.stderr.write("it ended on request\n")
        sys.exit(int(act.name or 1))
    if act.word == "partial":
        sys.stdout.write(json.dumps(tick)[:-4])
        sys.exit(0)
    if act.word == "flood":
        sys.stdout.write('{"type": "')
        while True:
            sys.stdout.write("x" * (1 << 20))
    while True:
        if act.word == "hang":
            tell(tick)
        time.sleep(0.02)


def make_noise(script):
    """Print lines that are no JSON, if that is asked for."""
    if script.has("noise"):
        sys.stdout.write("a warning that is no JSON\n{half\n[1]\n\n")
        sys.stdout.flush()


def linger():
    """Leave a process behind that holds the pipes, outside of the process group."""
    subprocess.Popen(["sleep", "60"], start_new_session=True)


class History:
    """What was said, in a file: a prompt is in it before it is answered."""

    def __init__(self, file):
        self.file = Path(file)

    def exists(self):
        return self.file.exists()

    def lines(self):
        if not self.exists():
            return []
        with self.file.open(encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def add(self, role, **values):
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with self.file.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"role": role, **values}) + "\n")

    def ask(self, prompt):
        """Write a prompt down: the number of its turn."""
        self.add("user", text=prompt)
        return sum(line["role"] == "user" for line in self.lines())

    def calls(self):
        """How often the model was asked, over all turns."""
        return sum(line.get("calls", 0) for line in self.lines())


class Flags:
    """Words of a command line, read as strictly as the agents do: what is not known is refused."""

    def __init__(self, words, *, alone=(), valued=(), unknown="error: unknown option '{}'", code=1):
        """`unknown` and `code`: what is said of a word that is not known, and how it ends then."""
        self.values = {}
        self.rest = []
        words = list(words)
        while words:
            word = words.pop(0)
            if word in alone:
                self.values[word] = True
            elif word in valued:
                if not words:
                    refuse(f"error: option '{word}' argument missing", code)
                self.values.setdefault(word, []).append(words.pop(0))
            elif word.startswith("-") and word != "-":
                refuse(unknown.format(word), code)
            else:
                self.rest.append(word)

    def has(self, word):
        return word in self.values

    def last(self, word, default=""):
        return self.values[word][-1] if word in self.values else default


def refuse(message, code=1):
    sys.stderr.write(message + "\n")
    sys.exit(code)

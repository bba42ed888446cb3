"""What the GitHub action reports if nothing was run: the job's summary, the outputs of the step, the text of a comment.

Called with a log and an exit code by the step that runs suites, and by `install.py`. A Python that is too old for
rejoinder must be able to say so: 3.6 reads this file, so it has no annotations.
"""

import os
import re
import sys
import unicodedata
from pathlib import Path

LINES = 60
LETTERS = 8000
_COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def escaped(text):
    """A text as the message of a workflow command, which it cannot end."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def fenced(log):
    """The end of a log as a block of Markdown that nothing in it can leave."""
    text = _COLOURS.sub("", log)
    plain = "".join(one for one in text if one in "\n\t" or not unicodedata.category(one).startswith("C"))
    kept = "\n".join(plain.strip().split("\n")[-LINES:])[-LETTERS:]
    longest = max([2] + [len(run) for run in re.findall("`+", kept)])
    fence = "`" * (longest + 1)
    return f"{fence}text\n{kept}\n{fence}\n"


def mark(name):
    """The first line of the comment, as `rejoinder ci` writes it: it replaces the comment on an earlier commit."""
    return "<!-- rejoinder-report:{} -->".format(re.sub("[^A-Za-z0-9_.]+", "-", name)[:100].strip("-"))


def report(headline, log, code):
    """Write summary, outputs and comment; without the variables of GitHub, nothing."""
    text = f"## rejoinder: {headline}\n\nThere are no results: exit code {code}.\n\n{fenced(log)}"
    outputs = f"exit_code={code}\n"
    if os.environ.get("RUNNER_TEMP"):
        comment = Path(os.environ["RUNNER_TEMP"]) / "rejoinder-comment.md"
        comment.write_bytes("{}\n{}".format(mark(os.environ.get("NAME", "results")), text).encode("utf-8", "replace"))
        outputs += f"comment={comment}\n"
    _append("GITHUB_STEP_SUMMARY", text)
    _append("GITHUB_OUTPUT", outputs)


def _append(variable, text):
    if os.environ.get(variable):
        with Path(os.environ[variable]).open("ab") as stream:
            stream.write(text.encode("utf-8", "replace"))


if __name__ == "__main__":
    report("the run did not start", Path(sys.argv[1]).read_bytes().decode("utf-8", "replace"), int(sys.argv[2]))

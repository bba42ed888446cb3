"""Count phrases that read like a translation, in prose that people read: README, CHANGELOG and docs (without code),
docstrings, strings and class names of src. The docstring of a command is its help, and counts as a message. `RULES` has
each phrase and what to write instead.

No file may have more findings than `tests/words.json` allows it. Lower these limits with `--write` after you reword
something; a file without an entry has limit 0."""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
LIMITS = "tests/words.json"
MOST_IN_MESSAGES = 2
MOST_IN_ALL = 1800
"""Bounds of the sums over all files. Lower these numbers when a change allows it; never raise them."""
WORST_FILES = 10
EXCERPT = 50
"""Letters that are shown before and after a finding."""
FILES = ("*.md", "docs/**/*.md", "src/**/*.py", "src/**/*.js")
NOT_OURS = ("testing/", "formatting/judge.py", "formatting/users.py")
"""Files whose strings are words of vendors, or prompts."""

SQL = re.compile(r"(?i:\b(?:select|insert) )|\b(?:AND|OR) \(?\w+\.")

DOCS, DOCSTRINGS, MESSAGES, NAMES = KINDS = ("docs", "docstrings", "messages", "names")
PROSE = (DOCS, DOCSTRINGS, MESSAGES)


class Rule(NamedTuple):
    """A phrase to avoid in texts of some kinds, with an example that it finds and one that it does not."""

    name: str
    pattern: str
    instead: str
    found: str
    not_found: str
    kinds: tuple[str, ...] = PROSE


BE = "(?:is|are|was|were)"
PER_WHAT = "line|file|case|reply|turn|row|second|family|run|conversation|token"
PARTICIPLES = (
    "Told|Asked|Said|Heard|Kept|Given|Found|Seen|Looked|Look|Listed|Wanted|Used|Sent|Held|Judged|Tried|Placed|Chosen|"
    "Shown|Stored|Opened|Ended|Built|Taken|Spent|Spoilt|Foreseen|Offered|Matched|Replaced|Selected|Prepared|Planned|"
    "Attached|Known|Allowed|Doubted|Recorded|Received|Loaded|Alike|Unlike|Beside|Against|Before"
)
RULES = (
    Rule(
        "so-many",
        r"\b[Ss]o many\b(?! that\b)",
        "N; up to N; that many",
        "Stop after so many failures.",
        "There are so many that the page is slow.",
    ),
    Rule(
        "is-none",
        rf"\b(?:it|that|this|which|what|target|they) {BE} none\b(?! of)|\bwhere there {BE} none\b",
        "if missing; is not a X",
        "None where there is none.",
        "This is none of the names.",
    ),
    Rule(
        "goes-on",
        r"\b(?:[Gg]o|[Gg]oes|going|went) on\b(?! (?:the|a|an|top|disk)\b)",
        "continue; is running",
        "The run goes on after a crash.",
        "Notes go on the first line.",
    ),
    Rule(
        "is-told",
        r"\b(?:is|are|was|were|be|been) (?:not )?told\b(?! apart)|\b[Tt]ells? of\b",
        "say who reports or knows what",
        "The judge is told the criteria.",
        "Two runs can be told apart.",
    ),
    Rule(
        "became-of",
        r"\b[Ww]hat (?:became|becomes|came|comes) (?:of|to)\b|\bcame to\b",
        "the result of; the outcome of",
        "Shows what became of a call.",
        "Shows what comes next.",
    ),
    Rule(
        "other-way",
        r"\bin (?:another way|other words)\b",
        "differently; with a different message",
        "Asks the question in other words.",
        "Asks with a different message.",
    ),
    Rule(
        "anew",
        r"\banew\b|(?<!control: )\bafresh\b",
        "again; in a new conversation",
        "Grades the replies anew.",
        "Opens a new file.",
    ),
    Rule(
        "noun-no",
        rf"(?<!here )\b(?:through|over|by|into|as|{BE}) no (?!longer|more|less|fewer|doubt)[a-z]+",
        "negate the verb",
        "The value is no number.",
        "There is no number, and the key is no longer used.",
    ),
    Rule(
        "further",
        r"\b[Ff]urther (?!than|down|up|away)[a-z]+",
        "more; additional; another",
        "Reads further targets from a file.",
        "See further down.",
    ),
    Rule(
        "one-a-line",
        r"\b(?:an? (?!terminal)\w+|one|time|tokens|cost|records?|calls?|dollars|often|rounds) "
        rf"a (?:{PER_WHAT})\b(?! (?:that|of|which|has|is|was|from|to|in|may))",
        "one X per Y",
        "Has one record a line.",
        "Has one record per line.",
    ),
    Rule(
        "how-far",
        r"\b[Hh]ow far\b",
        "how reliable; how much; progress",
        "Shows how far it is.",
        "Shows how much is done.",
    ),
    Rule(
        "lies-in",
        r"\b(?:lies?|lay|stands?|stood) (?:in|there|here|beside|under|where|at|below|around|before|after|between)\b",
        "is in",
        "The file lies in the run folder.",
        "CI stands for continuous integration.",
    ),
    Rule(
        "in-the-end",
        r"\b[Ii]n the end\b",
        "final; after follow-ups",
        "In the end 8 passed.",
        "8 passed at the end.",
    ),
    Rule(
        "from-on",
        r"\b[Ff]rom (?!then|here|now|there|going)(?:(?:a|the|this|that|which) )?(?:[\w.]+ ){0,2}?on\b"
        r"(?=[.,;:)|]|$| [a-z])",
        "from X; N or more",
        "Asks from this turn on.",
        "It is silent from then on.",
    ),
    Rule(
        "of-which",
        r"(?<!each )(?<!one )(?<!some )(?<!all )\b[Oo]f (?:which|whom)\b",
        "whose; where; split the sentence",
        "A file of which the name is known.",
        "Three files, each of which has a name.",
    ),
    Rule(
        "where-if",
        r"\b[Ww]here (?:there|it|that|this|they|one|none|nothing) "
        r"(?:is|are|was|were|has|have|had|does|do|can|may|would)\b",
        "if; when",
        "Resumes the run where it can.",
        "The folder where runs are stored.",
    ),
    Rule(
        "those-of",
        r"\b[Tt]hose of\b",
        "repeat the noun",
        "Its keys are those of a case.",
        "Those that fail are listed.",
    ),
    Rule(
        "alone-only",
        r"(?<!left )(?<!leave )(?<!stands )(?<!stand )\balone\b(?=[.,;:)]|$)",
        "only, before the word it limits",
        "For tests alone.",
        "The file is left alone.",
    ),
    Rule(
        "as-it-is",
        r"\bas (?:it|they) (?:stands?|is|are)\b(?=[.,;:)]| \||$)",
        "unchanged; verbatim",
        "Sends the text as it is.",
        "It is as it is documented.",
    ),
    Rule(
        "of-yours",
        r"\bof (?:yours|ours|theirs|others)\b",
        "your X; untrusted X; other X",
        "Calls a function of yours.",
        "Calls your function.",
    ),
    Rule(
        "that-there-is",
        r"\bthat there (?:is|are|has to be)\b(?! (?:an?|no|any|one|nothing)\b)",
        "existing; or drop it",
        "Name turns that there are.",
        "It says that there is no such turn.",
    ),
    Rule(
        "also-such",
        r"\balso (?:such|of|those|what|where|after)\b",
        "including; even if; even after",
        "Shows all runs, also those of others.",
        "Also shows other runs.",
    ),
    Rule(
        "wanted",
        r"\bas wanted\b|\b[Ww]ant this\b|\bwant(?:s|ed)? (?:of|back)\b",
        "must; expected; requires",
        "The reply is as wanted.",
        "If you want more, add a case.",
    ),
    Rule(
        "spoilt",
        r"\b[Ss]poi(?:lt|ls|led|l)\b",
        "invalid; invalidated",
        "The user spoilt the conversation.",
        "The conversation is invalid.",
    ),
    Rule(
        "take-up",
        r"\b(?:[Tt]akes?|taken|took) up\b(?! to\b)",
        "fork; continue",
        "It takes up a conversation.",
        "It takes up to a minute.",
    ),
    Rule(
        "human-labels",
        r"\blabels of people\b|\bpeople have labelled\b|\bpeople's labels\b",
        "human labels",
        "Compares with people's labels.",
        "Compares with human labels.",
    ),
    Rule(
        "the-most-is",
        r"\bthe (?:most|least) is\b|\bthe (?:most|least) [a-z]+ that\b",
        "the limit is; at most; minimum",
        "The number is the most seconds that it may take.",
        "Whoever needs the most time waits.",
    ),
    Rule(
        "building",
        r"\b(?:[Hh]ouse|[Dd]oors?|[Rr]ooms|(?:a|the|each|its|their|this|other|another) room)\b",
        "package; public API; module",
        "Imports go through the door.",
        "There is room for more.",
    ),
    Rule(
        "passport",
        r"\b[Pp]assports?\b",
        "judge reliability; judge test",
        "The judge has no passport.",
        "The judge was not tested.",
        (DOCS, MESSAGES),
    ),
    Rule(
        "doc-what",
        r"^(?:What|How|Where|Which|Whose|Who|When)\b(?!.*\?$)",
        "begin with a noun, or a verb: Return, Count",
        "What a call costs.",
        "The cost of a call.",
        (DOCSTRINGS,),
    ),
    Rule(
        "doc-question",
        r"^(?:Is|Are|Does|Do|Did|Has|Have|Was|Were|Can|Would|Should|May|Must|Will)\b[^.]*\?",
        "Whether ...; True if ...",
        "Is the file new?",
        "Whether the file is new.",
        (DOCSTRINGS,),
    ),
    Rule(
        "participle",
        f"^_?(?:{PARTICIPLES})$",
        "a noun: Reply, CallRecord",
        "Told",
        "Reply",
        (NAMES,),
    ),
)
RULES_BY_NAME = {rule.name: rule for rule in RULES}


class Passage(NamedTuple):
    """A paragraph, docstring, string or name, and the line of its file on which it begins."""

    kind: str
    line: int
    source: str

    @property
    def text(self) -> str:
        """The passage on one line, as rules match it."""
        return " ".join(self.source.split())

    def line_at(self, position: int) -> int:
        """Return the line of the file for a position in `text`."""
        lines_of_words = [number for number, line in enumerate(self.source.split("\n")) for _ in line.split()]
        return self.line + lines_of_words[self.text.count(" ", 0, position)]


class Finding(NamedTuple):
    file: str
    line: int
    kind: str
    rule: str
    excerpt: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} [{self.kind}] {self.excerpt}"

    def with_advice(self) -> str:
        """The line that says what to write instead."""
        return f"  {self.file}:{self.line} {self.rule}: {self.excerpt!r}; write: {RULES_BY_NAME[self.rule].instead}"


def passages_of_markdown(text: str) -> Iterator[Passage]:
    """Paragraphs, list items, table rows and headings, without code blocks, comments and addresses of links."""
    text = re.sub(r"```.*?```|<!--.*?-->", lambda match: newlines_of(match[0]), text, flags=re.DOTALL)
    text = re.sub(r"\]\([^)]*\)", lambda match: "]" + newlines_of(match[0]), text)
    start = 0
    for gap in [*re.finditer(r"\n\s*\n|\n(?=[|#*-] ?)", text), None]:
        end = gap.start() if gap else len(text)
        yield Passage(DOCS, line_of(text, start), without_code(text[start:end]))
        start = gap.end() if gap else end


def passages_of_python(text: str) -> Iterator[Passage]:
    docstrings = set[int]()
    for node in ast.walk(ast.parse(text)):
        kind = MESSAGES if is_a_command(node) else DOCSTRINGS
        for string in docstrings_in(node):
            docstrings.add(id(string))
            yield Passage(kind, string.lineno, without_code(string.value))
        match node:
            case ast.ClassDef(name=name):
                yield Passage(NAMES, node.lineno, name)
            case ast.Constant(value=str(value)) if id(node) not in docstrings and is_a_message(value):
                yield Passage(MESSAGES, node.lineno, " ".join(without_code(value).split()))


def is_a_command(node: ast.AST) -> bool:
    """Whether click shows the docstring of the function as help."""
    if not isinstance(node, ast.FunctionDef):
        return False
    calls = [decorator.func for decorator in node.decorator_list if isinstance(decorator, ast.Call)]
    return any(isinstance(call, ast.Attribute) and call.attr in ("command", "group") for call in calls)


def is_a_message(string: str) -> bool:
    return " " in string and not SQL.search(string)


def docstrings_in(node: ast.AST) -> Iterator[ast.Constant]:
    """The strings that are statements in the body of a node: docstrings, also of variables."""
    body = getattr(node, "body", None)
    for statement in body if isinstance(body, list) else []:
        match statement:
            case ast.Expr(value=ast.Constant(value=str()) as string):
                yield string


def passages_of_javascript(text: str) -> Iterator[Passage]:
    for match in re.finditer(r"'[^'\n]* [^'\n]*'|`[^`\n]* [^`\n]*`", text):
        yield Passage(MESSAGES, line_of(text, match.start()), match[0])


def without_code(text: str) -> str:
    return re.sub(r"`[^`\n]*`", "`x`", text)


def newlines_of(text: str) -> str:
    return "\n" * text.count("\n")


def line_of(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


READERS: dict[str, Callable[[str], Iterator[Passage]]] = {
    ".md": passages_of_markdown,
    ".py": passages_of_python,
    ".js": passages_of_javascript,
}
PATTERNS = {kind: [(rule.name, re.compile(rule.pattern)) for rule in RULES if kind in rule.kinds] for kind in KINDS}


def findings_in_passage(file: str, passage: Passage) -> Iterator[Finding]:
    text = passage.text
    for rule, pattern in PATTERNS[passage.kind]:
        for match in pattern.finditer(text):
            excerpt = text[max(0, match.start() - EXCERPT) : match.end() + EXCERPT]
            yield Finding(file, passage.line_at(match.start()), passage.kind, rule, excerpt)


def findings_in(root: Path) -> list[Finding]:
    found: list[Finding] = []
    for path in sorted({path for pattern in FILES for path in root.glob(pattern)}):
        file = path.relative_to(root).as_posix()
        strings_are_ours = not any(part in file for part in NOT_OURS)
        for passage in READERS[path.suffix](path.read_text(encoding="utf-8")):
            if passage.kind != MESSAGES or strings_are_ours:
                found.extend(findings_in_passage(file, passage))
    return found


def counts_by_file(found: Iterable[Finding]) -> Counter[str]:
    return Counter(finding.file for finding in found)


def summary(found: list[Finding]) -> Iterator[str]:
    """The lines with the counts by rule and the files with the most findings."""
    counts = Counter((finding.rule, finding.kind) for finding in found)
    for rule in RULES:
        numbers = " ".join(f"{counts[rule.name, kind]:5} {kind}" for kind in KINDS)
        yield f"{rule.name:14} {numbers}  write: {rule.instead}"
    by_file = counts_by_file(found)
    yield f"{len(found)} findings in {len(by_file)} files; most in:"
    yield from (f"{count:5} {file}" for file, count in by_file.most_common(WORST_FILES))


def complaints(found: list[Finding], limits: dict[str, int]) -> Iterator[str]:
    """The lines about files with more findings than their limits, and about sums above their bounds."""
    for file, count in counts_by_file(found).items():
        if count > limits.get(file, 0):
            yield f"{file}: {count} findings, limit {limits.get(file, 0)}; reword what you added:"
            yield from (finding.with_advice() for finding in found if finding.file == file)
    messages = [finding for finding in found if finding.kind == MESSAGES]
    if len(messages) > MOST_IN_MESSAGES:
        yield f"messages and help: {len(messages)} findings, at most {MOST_IN_MESSAGES}:"
        yield from (finding.with_advice() for finding in messages)
    if len(found) > MOST_IN_ALL:
        yield f"all texts: {len(found)} findings, at most {MOST_IN_ALL}; list the findings of a rule with --show RULE"


def main() -> None:
    parser = argparse.ArgumentParser(description="Count phrases that read like a translation, by rule and by file.")
    parser.add_argument("root", nargs="?", type=Path, default=ROOT, help="the project's folder [default: this one]")
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--show", metavar="RULE", choices=RULES_BY_NAME, help="list the findings of a rule")
    action.add_argument("--write", action="store_true", help=f"store the counts of all files in {LIMITS}")
    action.add_argument("--check", action="store_true", help=f"exit with 1 if a file has more than {LIMITS} allows")
    options = parser.parse_args()
    found, limits = findings_in(options.root), options.root / LIMITS
    if options.show:
        print(*(finding for finding in found if finding.rule == options.show), sep="\n")
    elif options.write:
        limits.write_text(json.dumps(counts_by_file(found), indent=1, sort_keys=True) + "\n", encoding="utf-8")
    elif options.check:
        sys.exit("\n".join(complaints(found, json.loads(limits.read_text(encoding="utf-8")))) or 0)
    else:
        print(*summary(found), sep="\n")


if __name__ == "__main__":
    main()

"""Data sets of Inspect: samples as JSON, JSONL or CSV.

A data set says what is asked and what is expected; the scorer is in the code of a task. So the user names one, or every
target has to occur in the reply, as Inspect's `includes` has it.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterator
from typing import Any

from rejoinder.imports.sources import ImportFault, SourceFile, Spot
from rejoinder.imports.texts import Ids, literal, literal_tree, unpacked, written
from rejoinder.imports.workbench import Workbench
from rejoinder.project.files import in_quotes
from rejoinder.yaml_text import Comment, Commented

_MODEL = "openai/gpt-5-mini"
_INPUTS = ("question", "prompt", "query")
_TARGETS = ("answer", "expected", "ideal", "label", "expected_output")
_SAMPLE = frozenset({"input", "target", "choices", "id", "metadata", "files", "sandbox", "setup"})
_SCORERS = {
    "auto": "Inspect names the scorer in code; here the target has to occur in the reply. --check names another",
    "match": "a regular expression for the end of the reply, without the marks there",
    "exact": "letter case does not matter, and articles do",
    "model_graded": "the judge gets our instructions, and the target as the reference",
}
_HEADER = "To test another target: rejoinder run FILE -m TARGET"
_SANDBOX = "it belongs to a sandbox; an agent has `workspace_template`, `setup` and `skills`"
_CHOICES = "Answer with one line of the form ANSWER: LETTER. If several are right, name all. The letters are {letters}."


def convert(source: SourceFile, bench: Workbench) -> None:
    """Make the suite of a data set. Raises ImportFault."""
    reader = _Samples(bench)
    evals = [one for spot in source.rows() for one in reader.sample(spot)]
    if not reader.cases:
        raise source.spot.fault("there are no samples in it", "A sample has an `input`.")
    suite: dict[Any, Any] = {Comment(_HEADER): None, "name": literal(source.path.stem)}
    suite["target"] = Commented(_MODEL, "the target to test; name yours")
    if bench.choice == "model_graded":
        suite["judge_target"] = _MODEL
    if reader.is_scored and bench.choice in _SCORERS:
        what = "the scorer" if bench.choice == "auto" else f"the scorer `{bench.choice}`"
        suite[bench.ledger.approximate(source.spot, what, _SCORERS[bench.choice])] = None
    bench.ledger.count_cases(reader.cases)
    bench.suite(source, {**suite, "evals": evals})


class _Samples:
    """Samples as cases."""

    def __init__(self, bench: Workbench) -> None:
        self.bench = bench
        self.ledger = bench.ledger
        self.ids = Ids()
        self.cases = 0
        self.is_scored = False
        """Whether a check was chosen by the option."""
        self.renamed: set[str] = set()
        """Columns that are read under another name."""

    def sample(self, spot: Spot) -> Iterator[Any]:
        """The case of a sample, or the comment in its place."""
        asked = self._named(spot, "input", _INPUTS)
        if asked is None or not isinstance(asked.value, str | list) or not asked.value:
            yield self.ledger.leave_out(spot, "a sample", "it has no input")
            return
        case: dict[Any, Any] = dict.fromkeys(spot.above())
        name = self.ids.take(spot["id"], f"sample-{self.cases + 1}")
        target = self._named(spot, "target", _TARGETS)
        choices = _choices(spot["choices"])
        try:
            said = self._input(asked, choices)
        except ImportFault as fault:
            yield self.ledger.leave_out(asked, "a sample", fault.what)
            return
        self.cases += 1
        case |= {"id": name, **said, **self._check(target, choices)}
        case |= self._sandbox(spot, case)
        if metadata := self._metadata(spot, {asked.path[-1:], target.path[-1:] if target is not None else ()}):
            case["metadata"] = metadata
        for key, one in spot.pairs:
            if key not in {"files", "sandbox", "setup"} and one.value not in (None, ""):
                self.ledger.map(one if one.row is None else one.of(one.value))
        yield case

    def _named(self, spot: Spot, key: str, others: tuple[str, ...]) -> Spot | None:
        """The value of a key, or of another that often has its place."""
        if key in spot:
            return spot[key]
        other = next((other for other in others if other in spot), None)
        if other is None:
            return None
        if other not in self.renamed:  # one line in the report says it for all samples
            self.renamed.add(other)
            self.ledger.approximate(spot[other], f"`{other}`", f"it is read as `{key}`")
        return spot[other]

    def _input(self, spot: Spot, choices: list[str]) -> dict[Any, Any]:
        """The prompt, or the messages. Raises ImportFault if they cannot be sent."""
        if isinstance(spot.value, str):
            if not spot.value.strip():
                raise spot.fault("it has no input")
            return {"prompt": _with_choices(literal(spot.value), choices)}
        messages = [self._message(one) for one in spot.items]
        if messages[-1]["role"] not in ("user", "tool"):
            raise spot.fault("its last message is not the user's")
        if choices:
            last = messages[-1]["content"]
            text = last if isinstance(last, str) else "\n".join(last)
            messages[-1]["content"] = _with_choices(text, choices)
        return {"input_messages": messages}

    def _message(self, spot: Spot) -> dict[Any, Any]:
        role = spot["role"].value
        if role not in ("system", "user", "assistant", "tool"):
            raise spot.fault(f"a message has the role {in_quotes(str(role))}")
        message: dict[Any, Any] = {"role": role, "content": self._content(spot["content"])}
        calls = [_call(one, number) for number, one in enumerate(spot["tool_calls"].items, 1)]
        if calls and role == "assistant":
            message["tool_calls"] = calls
        answered = spot["tool_call_id"].value
        if role == "tool" and isinstance(answered, str) and answered:
            message["tool_call_id"] = literal(answered)
        return message

    @staticmethod
    def _content(spot: Spot) -> Any:
        """A text, or a list of texts. Raises ImportFault for pictures, sound and the like."""
        if isinstance(spot.value, str):
            return literal(spot.value)
        texts = [one["text"].value for one in spot.items]
        if not texts or not all(isinstance(text, str) for text in texts):
            raise spot.fault("a message has content that is not text")
        return [literal(text) for text in texts]

    def _check(self, target: Spot | None, choices: list[str]) -> dict[Any, Any]:
        """Checks for the target."""
        targets = [] if target is None else [str(one.value) for one in target.items if str(one.value).strip()]
        if target is None or not targets:
            return {"checks": [Comment("the sample has no target"), {"min_words": 1}]}
        if choices:
            letters = "".join(targets).replace(",", "").replace(" ", "").upper()
            how = "our words ask for the letter, and a regular expression finds it"
            note = self.ledger.approximate(target, "the solver and scorer of choices", how)
            together = r"\s*,?\s*".join(re.escape(letter) for letter in sorted(letters))
            return {"checks": [note, {"regex": rf"(?i)ANSWER\s*:\s*{together}\b"}]}
        self.is_scored = True
        return _SCORED[self.bench.choice](targets)

    def _sandbox(self, spot: Spot, case: dict[Any, Any]) -> dict[Any, Any]:
        """Files and settings of a sandbox."""
        lost: dict[Any, Any] = {}
        for key in ("sandbox", "setup"):
            if spot[key].value not in (None, ""):
                lost[self.ledger.leave_out(spot[key], f"`{key}`", _SANDBOX)] = None
        for name, one in unpacked(spot["files"]).pairs if spot["files"].value not in (None, "") else ():
            path = self._file(one)
            if path is None or "prompt" not in case:
                lost[self.ledger.leave_out(spot["files"], f"the file {in_quotes(name)}", _SANDBOX)] = None
                continue
            how = "it is attached to the prompt, and an agent finds it in its workspace"
            lost[self.ledger.approximate(spot["files"], f"the file {in_quotes(name)}", how)] = None
            content = [case.pop("prompt"), {"type": "file", "value": path}]
            case["input_messages"] = [{"role": "user", "content": content}]
        return lost

    def _file(self, spot: Spot) -> str | None:
        """The path of a file beside the data set; None for a text, an address, or a file that is not there."""
        if not isinstance(spot.value, str) or "\n" in spot.value or ":" in spot.value:
            return None
        try:
            path = spot.locate(spot.value)
            return self.bench.reference(spot, path) if path.is_file() else None
        except (ImportFault, OSError):
            return None

    def _metadata(self, spot: Spot, read: set[Any]) -> dict[Any, Any]:
        """The sample's metadata, and the columns that Inspect does not read."""
        names = {name for path in read for name in path}
        found = unpacked(spot["metadata"]).value
        kept = literal_tree(found) if isinstance(found, dict) else {}
        for key, one in spot.pairs:
            if key not in _SAMPLE and key not in names and one.value not in (None, ""):
                kept.setdefault(literal(key), literal_tree(one.value))
        return kept


def _call(spot: Spot, number: int) -> dict[str, Any]:
    """A call of a tool. Raises ImportFault if it has no name."""
    name = spot["function"].value
    if not isinstance(name, str) or not name:
        raise spot.fault("a call of a tool has no name")
    made = spot["id"].value
    arguments = spot["arguments"].value
    call: dict[str, Any] = {"id": literal(made) if isinstance(made, str) and made else f"call-{number}"}
    call["name"] = literal(name)
    return call | ({"arguments": literal_tree(arguments)} if isinstance(arguments, dict) and arguments else {})


def _choices(spot: Spot) -> list[str]:
    """The choices; in a cell they are divided by commas, or by spaces."""
    value = unpacked(spot).value
    if isinstance(value, str):
        value = value.split(",") if "," in value else value.split()
    texts = [written(one) for one in value] if isinstance(value, list) else []
    return [text.strip() for text in texts if text.strip()][: len(string.ascii_uppercase)]


def _with_choices(text: str, choices: list[str]) -> str:
    if not choices:
        return text
    letters = string.ascii_uppercase[: len(choices)]
    listed = "\n".join(f"{letter}) {choice}" for letter, choice in zip(letters, choices, strict=True))
    return f"{text}\n\n{listed}\n\n{_CHOICES.format(letters=', '.join(letters))}"


def _includes(targets: list[str]) -> dict[Any, Any]:
    texts = [literal(text) for text in targets]
    return {"checks": [{"icontains": texts[0]} if len(texts) == 1 else {"icontains_any": texts}]}


def _match(targets: list[str]) -> dict[Any, Any]:
    endings = [re.escape(text.strip().strip(string.punctuation) or text.strip()) for text in targets]
    together = endings[0] if len(endings) == 1 else f"(?:{'|'.join(endings)})"
    return {"checks": [{"regex": literal(rf"(?is){together}[\s\p{{P}}\p{{S}}]*$")}]}


def _exact(targets: list[str]) -> dict[Any, Any]:
    if any("*" in text for text in targets):  # a star stands for any text in a pattern
        whole = "|".join(re.escape(text.strip()) for text in targets)
        return {"checks": [{"regex": literal(rf"(?is)^\s*(?:{whole})\s*$")}]}
    either = [{"match": literal(text)} for text in targets]
    return {"checks": either if len(either) == 1 else [{"or": either}]}


def _model_graded(targets: list[str]) -> dict[Any, Any]:
    reference = literal("\n\nor\n\n".join(targets))
    judge = {"llm_judge": "Gives the answer of the reference, and nothing that contradicts it."}
    return {"expected_messages": [{"role": "assistant", "content": reference}], "checks": [judge]}


_SCORED = {
    "auto": _includes,
    "includes": _includes,
    "match": _match,
    "exact": _exact,
    "model_graded": _model_graded,
}

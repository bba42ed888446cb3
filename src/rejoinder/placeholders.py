"""Placeholders in the commands of `cli` targets and the requests of `http` targets: their names, places and faults."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from rejoinder.spelling import nearest
from rejoinder.words.numbers import listed

OF_A_COMMAND = ("PROMPT", "PROMPT_FILE", "GUIDELINES", "EVAL_ID", "ATTEMPT", "FILES", "OUTPUT_FILE")
OF_A_FILE = ("path", "basename")
OF_A_REQUEST = (
    *("prompt", "messages", "system", "question", "case_id", "trial", "turn", "conversation_id", "session"),
)
IN_A_REQUEST = re.compile(r"""(?<!\$)\{\{\s*(?:(\w+)|(['"])(\{\{|\}\})\2)\s*\}\}""")
"""A placeholder by its name, or literal braces: `{{ '{{' }}`."""
CARRY_CONVERSATION = frozenset({"messages", "session", "conversation_id"})
"""Placeholders that give a service the earlier messages, or the id of the conversation."""
CARRY_SYSTEM = frozenset({"messages", "system"})
"""Placeholders that give a service the system prompt."""
_READS_PROGRAMS = re.compile(r"(?:.*/)?(?:sh|bash|dash|zsh|ksh|fish|python[\d.]*|node|perl|ruby|php)")
_IN_BRACES = re.compile(r"(?<!\{)(\$?)\{([A-Za-z_]+)\}")


def named_in(text: str) -> set[str]:
    """The placeholders of a command in a text."""
    return {found[2] for found in _IN_BRACES.finditer(text) if _is_meant(found, OF_A_COMMAND)}


def fill(text: str, known: Collection[str], value: Callable[[str], str]) -> str:
    """The text with the values of its placeholders. Other text in braces stays unchanged."""
    return _IN_BRACES.sub(lambda found: value(found[2]) if _is_meant(found, known) else found[0], text)


def find_faults(text: str, known: Collection[str] = OF_A_COMMAND, *, for_shell: bool = False) -> Iterator[str]:
    """Faults of the placeholders in a text, in words. Braces of the shell (`${HOME}`, `{a,b}`) are not placeholders."""
    for found in _IN_BRACES.finditer(text):
        whole, dollar, name = found[0], found[1], found[2]
        if name in known:
            if dollar:
                yield f"`{whole}` is a variable of the shell; the placeholder is `{whole[1:]}`"
            elif for_shell and _is_in_quotes(text[: found.start()]):
                yield f"`{whole}` is in quotes; its value is quoted when it is filled in, so leave the quotes out"
        elif not dollar and (name.isupper() or known == OF_A_FILE or name.upper() in known):
            written = [f"{{{one}}}" for one in known]
            near = nearest(whole, written)
            there_are = listed([f"`{one}`" for one in written])
            hint = f"did you mean `{near}`?" if near else f"the placeholders are {there_are}"
            yield f"there is no placeholder `{whole}`; {hint}"


def find_faults_of_words(words: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Like `find_faults` for the words of a command without a shell, each with the position of its word."""
    for place, word in enumerate(words):
        yield from ((place, fault) for fault in find_faults(word))
        if "FILES" in named_in(word) and word != "{FILES}":
            yield place, "`{FILES}` becomes several words, so it has to be a word of its own"
        elif place > 1 and _reads_program(words[0], words[place - 1]) and named_in(word) and word[0] + word[-1] != "{}":
            yield place, f"`{words[0]}` would run what a value holds; hand it over as a word of its own, after this one"


def requested_in(value: Any) -> set[str]:
    """The placeholders of a request in a value: a text, or any part of a body or of headers."""
    return {name for _, text in texts_in(value) for name in _names_in(text)}


def _names_in(text: str) -> dict[str, None]:
    return dict.fromkeys(found[1] for found in IN_A_REQUEST.finditer(text) if found[1] is not None)


def find_faults_of_request(text: str, *, has_session: bool) -> Iterator[str]:
    """Faults of the placeholders in a text of a request."""
    for name in _names_in(text):
        if name not in OF_A_REQUEST:
            near, there_are = nearest(name, OF_A_REQUEST), listed([_in_braces(one) for one in OF_A_REQUEST])
            hint = f"did you mean {_in_braces(near)}?" if near else f"the placeholders are {there_are}"
            yield f"there is no placeholder {_in_braces(name)}; {hint}"
        elif name == "session" and not has_session:
            yield (
                "`{{ session }}` would always be empty: the target has no key `session`, which says where the first"
                " response has the session id. Add a line such as `session: { json_path: session_id }` or"
                " `session: { header: X-Session }`"
            )


def _in_braces(name: str) -> str:
    return f"`{{{{ {name} }}}}`"


def texts_in(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """All texts in a value of YAML or JSON, including keys, each with its place."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield (*path, key), str(key)
            yield from texts_in(inner, (*path, key))
    elif isinstance(value, list | tuple):
        for position, inner in enumerate(value):
            yield from texts_in(inner, (*path, position))


def words_without(settings: dict[str, Any]) -> tuple[str, ...]:
    """The command of a target with empty placeholders, to look for its script: its words, or one line for the shell."""
    command = settings.get("command")
    if isinstance(command, list):
        return tuple(fill(str(word), OF_A_COMMAND, lambda _: "") for word in command)
    return (fill(str(settings.get("command_template") or ""), OF_A_COMMAND, lambda _: ""),)


def _reads_program(command: str, option: str) -> bool:
    """Whether the word after this option is program text."""
    return bool(_READS_PROGRAMS.fullmatch(command) and re.fullmatch(r"-\w*[cer]|--eval", option))


def _is_meant(found: re.Match[str], known: Collection[str]) -> bool:
    return not found[1] and found[2] in known


def _is_in_quotes(before: str) -> bool:
    """Whether a quotation in a command line is still open. A line that continues in its own `$(...)` may be misread;
    then the value is split into words, but still not run."""
    quote, escaped = "", False
    for character in before:
        if escaped:
            escaped = False
        elif character == "\\" and quote != "'":
            escaped = True
        elif character in "'\"" and quote in ("", character):
            quote = "" if quote else character
    return bool(quote)

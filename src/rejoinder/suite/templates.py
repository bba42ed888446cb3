"""Templates: a closed grammar, not a language.

    {{ var('x') }}  {{ secret('x') }}  {{ env('X') }}    anywhere in a suite; the user's own variables come last
    {{ name }}                                           in a case that has variables, else a warning
    {{ response }}  {{ response(2) }}  {{ failed }}      in follow-ups, filled in at run time;
    {{ failed(answer) }}  {{ turn('x').response }}       `turn` forms, and extracted names, in planned turns
    {{ candidate_answer }} and similar                   in a judge's own prompt
    {{ '{{' }}  {{ '}}' }}                               literal braces

Everything else in braces is literal text. Expansion is single-pass: inserted text is never read again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct, structs

from rejoinder.errors import UsageError
from rejoinder.model import JUDGE_VARIABLES, JudgeVariable, Quote, mark_of, trim_start
from rejoinder.project.user_files import user_values
from rejoinder.spelling import did_you_mean, nearest
from rejoinder.words.numbers import listed, plural

_EXPRESSION = re.compile(
    r"""\{\{\s*(?:
        (?P<literal>'\{\{'|"\{\{"|'\}\}'|"\}\}")
      | (?P<function>var|secret|env)\(\s*(?P<quote>['"])(?P<argument>[^'"]*)(?P=quote)\s*\)
      | turn\(\s*(?P<mark>['"])(?P<step>[^'"]*)(?P=mark)\s*\)\.response
      | (?P<name>[^\W\d][\w.-]*)(?:\(\s*(?P<turn>\d{1,9}|answer)\s*\))?
      | (?P<misquote>(?i:turns?|responses?|failed)\s*[(\[][^{}]*)
    )\s*\}\}""",
    re.VERBOSE,
)
"""The last alternative is not an expression: it begins like a quote of earlier words, and does not end like one."""
_LIKE_TURN = re.compile(r"turns?\s*[(\[.]", re.IGNORECASE)
_TARGET_EXPRESSION = re.compile(r"\$\{\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")

_JUDGE_EXPRESSION = re.compile(r"\{\{\s*(" + "|".join(JUDGE_VARIABLES) + r")\s*\}\}")

Report = Callable[[str, str], None]
"""Called with the code and the message of a fault."""
MOST_CHARACTERS = 10_000_000
"""Maximum characters of variables inside one another: a few that double each other would fill the memory."""
_QUOTES = ("response", "failed")
"""Names that quote earlier words."""
_MOST_LISTED = 12
_LIKELY = 0.75
"""Minimum similarity of a name to one that can be quoted: a less similar one is another word."""


class Scope(Struct, frozen=True):
    """The names that expressions can refer to."""

    variables: Mapping[str, Any]
    """For `{{ var('x') }}`: variables of the suite, the project and the user."""
    environment: Mapping[str, str]
    names: Mapping[str, Any] | None = None
    """For `{{ name }}`: variables of the case and all above; None if the case has no variables."""
    secrets: dict[str, str] = {}
    """Receives each secret that was used: its value and the expression that names it."""
    keeps_braces: bool = False
    """True if literal braces stay written as `{{ '{{' }}`, because the text is filled in again later."""


def say_nothing(code: str, message: str) -> None:
    """A report for texts in which nothing counts as a mistake."""


def expand(text: str, scope: Scope, report: Report) -> str:
    """The text with its expressions filled in; an unknown one is reported and left unchanged."""
    return _EXPRESSION.sub(lambda match: _value(match, scope, report), text) if "{{" in text else text


def expand_judge_prompt(text: str, scope: Scope, report: Report) -> tuple[str | JudgeVariable, ...]:
    """The pieces of a judge's own prompt: text, and the places that are filled in when the judge is asked.

    Unknown names stay unchanged.
    """

    def value(match: re.Match[str]) -> str:
        name = match["name"]
        return match[0] if name and name not in (scope.names or {}) else _value(match, scope, report)

    return _judge_pieces(text, lambda part: _EXPRESSION.sub(value, part))


def read_judge_template(text: str) -> tuple[str | JudgeVariable, ...]:
    """The pieces of a judge's prompt from a file: files are never expanded."""
    return _judge_pieces(text, lambda part: part)


def _judge_pieces(text: str, expand_part: Callable[[str], str]) -> tuple[str | JudgeVariable, ...]:
    parts = enumerate(_JUDGE_EXPRESSION.split(text))
    pieces = (JudgeVariable(part) if position % 2 else expand_part(part) for position, part in parts)
    return tuple(piece for piece in pieces if piece != "")


class Quotable(Struct, frozen=True):
    """The names that a later turn may quote, besides replies by number."""

    steps: tuple[str, ...] = ()
    """The names of the planned turns so far."""
    extracted: tuple[str, ...] = ()
    replies: int | None = None
    """The maximum number of replies by then; None if unknown."""
    checks: tuple[str, ...] = ()
    """The values extracted by then, for the texts of checks."""
    failures: bool = True
    """Whether it may quote failures. A planned turn may not: it is sent after the turn before it has passed."""


REPLIES_ALONE = Quotable()


def mark_extracted(text: str, names: tuple[str, ...]) -> str:
    """The text of a check, with marks for values that are extracted before it is graded."""
    for name in names:
        text = re.sub(rf"\{{\{{\s*{re.escape(name)}\s*\}}\}}", mark_of(name), text)
    return text


def expand_follow_up(
    text: str, scope: Scope, report: Report, quotable: Quotable = REPLIES_ALONE
) -> tuple[str | Quote, ...]:
    """The pieces of a follow-up, or of a planned turn: text, and places for earlier words."""
    pieces: list[str | Quote] = []
    end = 0
    for match in _EXPRESSION.finditer(text):
        quote = _quote(match, quotable, report)
        if quote is not None or _is_misquoted(match, scope, quotable, report):
            pieces += [expand(text[end : match.start()], scope, report), match[0] if quote is None else quote]
            end = match.end()
    pieces.append(expand(text[end:], scope, report))
    return tuple(piece for piece in _trimmed(pieces) if piece != "")


def _trimmed(pieces: list[str | Quote]) -> list[str | Quote]:
    """The author's words trimmed as a whole; quoted words are never changed."""
    trimmed: list[str | Quote] = [piece.replace("\r\n", "\n") if isinstance(piece, str) else piece for piece in pieces]
    first, last = trimmed[0], trimmed[-1]
    if isinstance(first, str):
        trimmed[0] = trim_start(first)
    if isinstance(last, str):
        trimmed[-1] = trim_start(last).rstrip() if len(trimmed) == 1 else last.replace("\r\n", "\n").rstrip()
    return trimmed


def expand_tree(data: Any, scope: Scope, report: Report) -> Any:
    """Every string of a value, however deep."""
    if isinstance(data, str):
        return expand(data, scope, report)
    if isinstance(data, list):
        return [expand_tree(item, scope, report) for item in data]
    if isinstance(data, dict):
        return {key: expand_tree(value, scope, report) for key, value in data.items()}
    return data


def names_others(variables: Mapping[str, Any]) -> bool:
    """Whether variables may contain expressions. Most do not, and every row asks."""
    values = variables.values()
    return any("{{" in value if isinstance(value, str) else isinstance(value, list | dict) for value in values)


def name_by_function(value: Any, known: Collection[str] | None = None) -> Any:
    """A value whose texts name variables as `{{ var('name') }}` in place of `{{ name }}`: the known ones, or all."""

    def written(match: re.Match[str]) -> str:
        name = match["name"]
        is_variable = name and not match["turn"] and (name in known if known is not None else name not in _QUOTES)
        return f"{{{{ var('{name}') }}}}" if is_variable else match[0]

    if isinstance(value, str):
        return _EXPRESSION.sub(written, value) if "{{" in value else value
    if isinstance(value, list):
        return [name_by_function(one, known) for one in value]
    if isinstance(value, dict):
        return {key: name_by_function(one, known) for key, one in value.items()}
    return value


def filled_by_cases(own: Mapping[str, Any], known: Collection[str]) -> set[str]:
    """The variables that name unknown ones, themselves or through each other: cases may have these."""
    named = {key: set(_variables_in(value)) for key, value in own.items()}
    later: set[str] = set()
    while found := {
        key
        for key, names in named.items()
        if key not in later
        and any(name in later or (name not in known and (name == key or name not in own)) for name in names)
    }:
        later |= found
    return later


def expand_variables(own: Mapping[str, Any], scope: Scope, report_at: Callable[[str], Report]) -> dict[str, Any]:
    """Expand variables, which may name variables of the scope and each other, in any order.

    A variable that names itself means the outer one that it replaces. A circle is reported and stays unchanged.
    """
    from graphlib import TopologicalSorter

    named = {key: list(_variables_in(value)) for key, value in own.items()}
    if not any(named.values()):
        return {key: expand_tree(value, scope, report_at(key)) for key, value in own.items()}
    needed = {
        key: [name for name in names if name in own and not (name == key and name in scope.variables)]
        for key, names in named.items()
    }
    expanded: dict[str, Any] = {}
    for circle in _circles(needed):
        report_at(circle[0])("missing-variable", _circle_words(circle))
        expanded.update((key, own[key]) for key in circle)
    for key in TopologicalSorter(needed).static_order():
        if key in expanded:
            continue
        usable = {**scope.variables, **{name: expanded[name] for name in needed[key]}}
        if sum(len(write_value(usable[name])) for name in named[key] if name in usable) > MOST_CHARACTERS:
            report_at(key)("too-large", f"other variables make this one longer than {MOST_CHARACTERS:,} characters")
            expanded[key] = own[key]
        else:
            expanded[key] = expand_tree(own[key], structs.replace(scope, variables=usable), report_at(key))
    return {key: expanded[key] for key in own}


def _variables_in(value: Any) -> Iterator[str]:
    """The names in every `{{ var('name') }}` of a value, including repetitions."""
    if isinstance(value, str):
        yield from (match["argument"] for match in _EXPRESSION.finditer(value) if match["function"] == "var")
    elif isinstance(value, list | dict):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _variables_in(inner)


def _circles(needed: dict[str, list[str]]) -> Iterator[list[str]]:
    """Remove the variables that need themselves, circle by circle. Each circle begins with the variable that comes
    first."""
    from graphlib import CycleError, TopologicalSorter

    places = {key: place for place, key in enumerate(needed)}
    while True:
        try:
            TopologicalSorter(needed).prepare()
        except CycleError as error:
            circle: list[str] = error.args[1][:0:-1]  # each one before what it needs, without the first once more
            first = min(range(len(circle)), key=lambda place: places[circle[place]])
            yield [*circle[first:], *circle[:first]]
            needed.update((key, []) for key in circle)
        else:
            return


def _circle_words(circle: list[str]) -> str:
    first, *others = (f"`{name}`" for name in circle)
    if not others:
        return f"the variable {first} refers to itself; give it a value"
    return f"the variable {first} refers to itself, through {listed(others)}; give one of them a value of its own"


def expand_environment(text: str, environment: Mapping[str, str]) -> str:
    """A target's text with each `${{ VAR }}` filled in; a variable that is not set stays unchanged."""
    return _TARGET_EXPRESSION.sub(lambda match: environment.get(match[1], match[0]), text)


def named_outside(text: str) -> Iterator[tuple[Literal["environment", "secret", "variable"], str]]:
    """The names in a text that may be defined outside of its file, whether they exist or not: `{{ env('X') }}` and `${{
    X }}`, secrets, and variables in either form."""
    if "{{" not in text:
        return
    for name in re.findall(r"\$\s*\{\{\s*([^{}]*?)\s*\}\}", text):
        yield "environment", name
    for match in _EXPRESSION.finditer(text):
        if match["function"]:
            yield _OUTSIDE[match["function"]], match["argument"]
        elif match["name"]:
            yield "variable", match["name"]


_OUTSIDE: dict[str, Literal["environment", "secret", "variable"]] = {
    "env": "environment",
    "secret": "secret",
    "var": "variable",
}


def environment_names(text: str) -> list[str]:
    return _TARGET_EXPRESSION.findall(text)


def variables_named(data: Any, read: Callable[[str], str]) -> set[str]:
    """The variables that the texts of a value name, in either form. `read`: the content of a text's file."""
    if isinstance(data, str):
        return {name for kind, name in named_outside(data) if kind == "variable"}
    if isinstance(data, dict):
        file = data.get("file")
        inner = [*data.values(), read(file)] if isinstance(file, str) else [*data.values()]
    else:
        inner = data if isinstance(data, list) else []
    return set[str]().union(*(variables_named(one, read) for one in inner))


def sole_variable(text: str) -> str | None:
    """The variable of a text that consists only of `${{ VAR }}`."""
    match = _TARGET_EXPRESSION.fullmatch(text.strip())
    return match[1] if match else None


def write_value(value: Any) -> str:
    """A variable as text: strings unchanged, everything else as JSON."""
    if isinstance(value, str):
        return value
    return "" if value is None else msgspec.json.encode(value).decode()


def _quote(match: re.Match[str], quotable: Quotable, report: Report) -> Quote | None:
    name, turn, step = match["name"], match["turn"], match["step"]
    if step is not None:
        if step not in quotable.steps:
            report("unknown-turn", _no_step(match[0], step, quotable.steps))
        return Quote("response", name=step)
    if name == "response" and turn != "answer":
        number = int(turn) if turn else None
        if number is not None and quotable.replies is not None and not 1 <= number <= quotable.replies:
            there = f"there can be {quotable.replies} by then" if quotable.replies else "there is none yet"
            report("unknown-turn", f"`{match[0]}` quotes reply {number}, and {there}")
        return Quote("response", number)
    if name == "failed" and turn in (None, "answer") and quotable.failures:
        return Quote("answer" if turn else "failed")
    return Quote("extracted", name=name) if name in quotable.extracted and not turn else None


def _is_misquoted(match: re.Match[str], scope: Scope, quotable: Quotable, report: Report) -> bool:
    """Whether the words look like a mistaken quote of earlier words. It is reported, because it would be sent as
    written."""
    name, written = match["name"], match[0]
    inside = written[2:-2].strip()
    known = {**scope.variables, **(scope.names or {})}
    if match["function"] or match["literal"] or (name in known and not match["turn"]):
        return False
    if _LIKE_TURN.match(inside):
        report("unknown-turn", f"`{written}` does not quote a turn; {_how_to_quote(inside, quotable)}")
        return True
    quotes = ("response", *(("failed",) if quotable.failures else ()), *quotable.extracted)
    meant = nearest(re.split(r"[\s.(\[]", inside)[0], quotes, _LIKELY)
    if meant is None:
        return False
    message = f"`{written}` has no value, so it stays as written; did you mean `{{{{ {meant} }}}}`?"
    report("missing-variable" if scope.names is not None and not match["misquote"] else "unfilled-braces", message)
    return True


def _how_to_quote(inside: str, quotable: Quotable) -> str:
    """The right form of a mistaken quote of a turn."""
    number, named = (re.search(pattern, inside) for pattern in (r"\d+", r"['\"]([^'\"]*)['\"]"))
    if number is not None and named is None:
        return f"a reply is quoted by its number as `{{{{ response({number[0]}) }}}}`"
    step = named[1] if named is not None and named[1] in quotable.steps else "NAME"
    others = listed([f"`{one}`" for one in quotable.steps]) if quotable.steps else ""
    hint = f", by one of the names {others}" if step == "NAME" and others else ""
    return f"its reply is `{{{{ turn('{step}').response }}}}`{hint}"


def _no_step(written: str, step: str, known: tuple[str, ...]) -> str:
    hint = did_you_mean(step, known) or (f"; there are {listed([f'`{one}`' for one in known])}" if known else "")
    return f"`{written}` quotes a turn that does not exist yet: no turn up to here is named `{step}`{hint}"


def _value(match: re.Match[str], scope: Scope, report: Report) -> str:
    function, name = match["function"], match["name"]
    if match["literal"]:
        return match[0] if scope.keeps_braces else match["literal"][1:-1]
    if match["misquote"]:
        return match[0]
    if function:
        return _FUNCTIONS[function](match["argument"], match[0], scope, report)
    if name is None or scope.names is None or match["turn"]:
        report("unfilled-braces", _unfilled(match, scope))
        return match[0]
    if name not in scope.names:
        report("missing-variable", f"there is no variable `{name}`{_hint(name, scope.names)}")
        return match[0]
    return write_value(scope.names[name])


def _unfilled(match: re.Match[str], scope: Scope) -> str:
    """Why an expression in braces is not filled in, and the right form."""
    name, written = match["name"], match[0]
    if name is None:
        return f"`{written}` has a value in later turns and follow-ups only, so it stays as written here"
    if name in _QUOTES:
        where = "follow-ups and later turns" if name == "response" else "follow-ups"
        return f"`{written}` has a value in {where} only, so it stays as written here"
    if name in scope.variables:
        return f"`{written}` has no value; write `{{{{ var('{name}') }}}}`"
    hint = did_you_mean(name, scope.variables) or "; define it under `vars`, or write the braces as `{{ '{{' }}`"
    return f"`{written}` has no value, so it stays as written{hint}"


def _hint(name: str, known: Mapping[str, Any]) -> str:
    if name in _QUOTES:
        return f"; `{{{{ {name} }}}}` has a value in follow-ups only"
    near = did_you_mean(name, known)
    if near or not known or len(known) > _MOST_LISTED:
        return near
    words = listed([f"`{one}`" for one in known])
    return f"; {plural(len(known), 'the only variable here is', 'the variables here are')} {words}"


def _var(name: str, written: str, scope: Scope, report: Report) -> str:
    known = scope.variables if scope.names is None else {**scope.variables, **scope.names}
    if name not in known:
        hint = did_you_mean(name, known) or (
            f"; set it under `vars` in the suite or in .rejoinder/config.yaml, or for all your suites:"
            f" `rejoinder var set {name} VALUE`"
        )
        report("missing-variable", f"there is no variable `{name}`{hint}")
        return written
    return write_value(known[name])


def _env(name: str, written: str, scope: Scope, report: Report) -> str:
    if name not in scope.environment:
        report("missing-environment", f"the environment variable `{name}` is not set, nor is it in a .env file")
        return written
    return scope.environment[name]


def _secret(name: str, written: str, scope: Scope, report: Report) -> str:
    value = _find_secret(name, scope.environment)
    if value is None:
        report("missing-secret", _missing_secret(name))
        return written
    scope.secrets[value] = f"{{{{ secret('{name}') }}}}"
    return value


def find_secret_by_expression(expression: str, environment: Mapping[str, str]) -> str:
    """The value of `{{ secret('x') }}`, for text that was recorded with the expression in its place."""
    match = _EXPRESSION.fullmatch(expression)
    name = match["argument"] if match else expression
    value = _find_secret(name, environment)
    if value is None:
        raise UsageError(_missing_secret(name))
    return value


def _find_secret(name: str, environment: Mapping[str, str]) -> str | None:
    plain = re.sub(r"\W", "_", name).upper()
    candidates = (f"REJOINDER_SECRET_{plain}", name, plain)
    found = next((environment[one] for one in candidates if environment.get(one)), None)
    return found or user_values("secrets").get(name)


def _missing_secret(name: str) -> str:
    wanted = f"REJOINDER_SECRET_{re.sub(r'[^A-Za-z0-9_]', '_', name).upper()}"
    saved = f"`rejoinder secret set {name}` saves one"
    return f"there is no secret `{name}`; {saved}, or set {wanted} in the environment or in a .env file"


_FUNCTIONS = {"var": _var, "env": _env, "secret": _secret}

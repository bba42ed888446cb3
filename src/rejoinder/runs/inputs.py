"""Digests of the prompts, cases, checks, targets and code of a run."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator
from hashlib import sha256

import msgspec
from msgspec import Raw, Struct

from rejoinder.model import Case, Suite
from rejoinder.model.given import GivenTarget
from rejoinder.model.inputs import LONGEST_NAME, MOST_SOURCES, Digests
from rejoinder.model.suite import file_in_project
from rejoinder.project.files import FileFault, read_text
from rejoinder.runs.code_files import CodeOfSuite
from rejoinder.runs.receipt import case_lines
from rejoinder.runs.secrets import Mask
from rejoinder.runs.target_identity import identity_of

_PLACE = re.compile(rb'"(?:at|file)":"(?:[^"\\]|\\.)*",?|"(?:number|line)":\d+,?')
"""Places in a file: they change with every line above them."""
_CODE = re.compile(rb'"type":"(?:python|code|check)"')
"""Checks and tools that name code of the project."""
_NOTHING = Raw(b"null")
OTHERS = "other files"
"""The last of many sources: all that have no digest of their own."""


class _Parts(Struct):
    """A case in its encoded parts."""

    id: str
    system_prompt: str = ""
    prompt_prefix: str = ""
    level: Raw = _NOTHING
    reply: Raw = _NOTHING
    conversation_checks: Raw = _NOTHING
    messages: Raw = _NOTHING
    output_schema: Raw = _NOTHING
    context: Raw = _NOTHING
    plan: Raw = _NOTHING
    tools: Raw = Raw()
    user: Raw = _NOTHING
    expected_messages: Raw = _NOTHING
    variables: Raw = _NOTHING
    variant: str = ""


def digests_of(suites: list[Suite], mask: Mask, given: GivenTarget | None = None) -> Digests:
    """`mask`: secrets are hidden before anything is hashed."""
    prompts, cases, checks, code = set[bytes](), set[bytes](), set[bytes](), list(map(CodeOfSuite, suites))
    encode = msgspec.json.Encoder().encode
    decode = msgspec.json.Decoder(tuple[int, _Parts]).decode
    decode_whole = msgspec.json.Decoder(tuple[int, Case]).decode
    for line in map(encode, case_lines(suites)):
        number, case = decode(line)
        if _CODE.search(line) is not None:
            code[number].add(decode_whole(line)[1])
        prompts.update(text.encode("utf-8", "replace") for text in (case.system_prompt, case.prompt_prefix) if text)
        checks.update(_hashed(_placeless(part), mask) for part in (case.level, case.reply, case.conversation_checks))
        beside = [part for part in (case.output_schema, case.context) if part is not _NOTHING]
        said = map(_placeless, (case.messages, case.plan, case.user, case.expected_messages, *beside))
        parts = [case.id.encode(), *said, bytes(case.variables), case.variant.encode(), bytes(case.tools)]
        cases.add(_hashed(b"\n".join(parts if parts[-1] else parts[:-1]), mask))
    prompts |= {digest.encode() for suite in suites for digest in suite.files.values()}
    every = [target for suite in suites for target in suite.targets.values()]
    prompts |= {target.system_prompt.encode() for target in every if target.system_prompt}
    targets = {_hashed(identity_of(target) + (target.output_schema or "").encode(), mask) for target in every}
    return Digests(
        prompts=_digest(_hashed(one, mask) for one in prompts),
        cases=_digest(cases),
        checks=_digest(checks),
        targets=_digest(targets),
        code=_limited(dict(_code_digests(zip(suites, code, strict=True), mask, given))),
    )


def _code_digests(
    suites: Iterable[tuple[Suite, CodeOfSuite]], mask: Mask, given: GivenTarget | None
) -> Iterator[tuple[str, str]]:
    if given is not None and given.code is not None and given.code.digest is not None:
        yield given.name[:LONGEST_NAME], given.code.digest
    for suite, code in suites:
        modules = (next((file for file in files if file.is_file()), None) for files in code.modules())
        for file in sorted(code.scripts.union(filter(None, modules))):
            with contextlib.suppress(FileFault):
                text = read_text(file)
                yield file_in_project(str(file), suite.root)[:LONGEST_NAME], _hashed(text.encode(), mask).hex()


def _limited(digests: dict[str, str]) -> dict[str, str]:
    """The digests that a receipt can hold; the last ones are joined."""
    if len(digests) <= MOST_SOURCES:
        return digests
    first, others = list(digests.items())[: MOST_SOURCES - 1], list(digests.values())[MOST_SOURCES - 1 :]
    return {**dict(first), OTHERS: _digest(map(bytes.fromhex, others))}


def _placeless(part: Raw) -> bytes:
    return _PLACE.sub(b"", bytes(part))


def _hashed(content: bytes, mask: Mask) -> bytes:
    if mask:
        content = mask.hide_text(content.decode("utf-8", "replace")).encode("utf-8", "replace")
    return sha256(content).digest()


def _digest(parts: Iterable[bytes]) -> str:
    """One digest of several, in any order."""
    return sha256(b"".join(sorted(parts))).hexdigest()

"""Digests of the prompts, cases, checks and targets of a run."""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import sha256

import msgspec
from msgspec import Raw, Struct

from rejoinder.model import Suite
from rejoinder.model.inputs import Digests
from rejoinder.runs.receipt import case_lines
from rejoinder.runs.secrets import Mask
from rejoinder.runs.target_identity import identity_of

_PLACE = re.compile(rb'"(?:at|file)":"(?:[^"\\]|\\.)*",?|"(?:number|line)":\d+,?')
"""Places in a file: they change with every line above them."""
_NOTHING = Raw(b"null")


class _Parts(Struct):
    """A case in its encoded parts."""

    id: str
    system_prompt: str = ""
    prompt_prefix: str = ""
    level: Raw = _NOTHING
    conversation_checks: Raw = _NOTHING
    messages: Raw = _NOTHING
    plan: Raw = _NOTHING
    user: Raw = _NOTHING
    expected_messages: Raw = _NOTHING
    variables: Raw = _NOTHING
    variant: str = ""


def digests_of(suites: list[Suite], mask: Mask) -> Digests:
    """`mask`: secrets are hidden before anything is hashed."""
    prompts, cases, checks = set[bytes](), set[bytes](), set[bytes]()
    encode = msgspec.json.Encoder().encode
    decode = msgspec.json.Decoder(tuple[int, _Parts]).decode
    for line in case_lines(suites):
        _, case = decode(encode(line))
        prompts.update(text.encode("utf-8", "replace") for text in (case.system_prompt, case.prompt_prefix) if text)
        checks.update(_hashed(_placeless(part), mask) for part in (case.level, case.conversation_checks))
        said = map(_placeless, (case.messages, case.plan, case.user, case.expected_messages))
        cases.add(_hashed(b"\n".join((case.id.encode(), *said, bytes(case.variables), case.variant.encode())), mask))
    prompts |= {digest.encode() for suite in suites for digest in suite.files.values()}
    every = [target for suite in suites for target in suite.targets.values()]
    prompts |= {target.system_prompt.encode() for target in every if target.system_prompt}
    targets = {_hashed(identity_of(target), mask) for target in every}
    return Digests(
        prompts=_digest(_hashed(one, mask) for one in prompts),
        cases=_digest(cases),
        checks=_digest(checks),
        targets=_digest(targets),
    )


def _placeless(part: Raw) -> bytes:
    return _PLACE.sub(b"", bytes(part))


def _hashed(content: bytes, mask: Mask) -> bytes:
    if mask:
        content = mask.hide_text(content.decode("utf-8", "replace")).encode("utf-8", "replace")
    return sha256(content).digest()


def _digest(parts: Iterable[bytes]) -> str:
    """One digest of several, in any order."""
    return sha256(b"".join(sorted(parts))).hexdigest()

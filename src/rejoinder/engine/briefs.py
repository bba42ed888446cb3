"""What an agent is given at a turn: the conversation as one text, guidelines apart, and the case's files by path."""

from __future__ import annotations

from msgspec import structs

from rejoinder.engine.calls import Call
from rejoinder.engine.effects import Ask
from rejoinder.engine.plan import Prepared
from rejoinder.formatting.files import attached_files
from rejoinder.formatting.prompt import format_case, guidelines_block
from rejoinder.model import Brief, ChatMessage, Message, Role, TextPart


def with_brief(call: Call, ask: Ask) -> Call:
    """The call of a candidate with what its target needs beside the messages, if that is an agent."""
    if call.target is None or call.target.mode != "agent":
        return call
    brief = _brief_of(call.job.prepared, ask)
    return structs.replace(call, request=structs.replace(call.request, brief=brief))


def message_of(role: Role, text: str) -> Message:
    """Words that were said in a conversation, as one of its case's messages."""
    return Message(role, (TextPart(text, ""),), "")


def _brief_of(prepared: Prepared, ask: Ask) -> Brief:
    """Turn 1 is the question as it is; later ones are formatted with all that was said."""
    case, prompt, formatting = prepared.case, prepared.prompt, prepared.suite.formatting
    system, said = _taken_apart(prepared, ask)
    question = prompt.question
    if said:
        first = case.messages
        if ask.window is not None:  # which leaves out the first words
            first = tuple(message for message in first if message.role == "system")
        messages = (*first, *(message_of(one.role, one.content) for one in said))
        question = format_case(structs.replace(case, messages=messages), formatting, "agent").question
    return Brief(
        prompt=question,
        system_prompt=system.removesuffix(guidelines_block(prompt.guidelines)).rstrip(),
        guidelines=prompt.guidelines,
        files=attached_files(case, formatting, prepared.suite.pictures),
    )


def _taken_apart(prepared: Prepared, ask: Ask) -> tuple[str, tuple[ChatMessage, ...]]:
    """The system message of a request, and what was said after the case's own words."""
    opening, messages, system = prepared.opening, ask.messages, ""
    fork = opening.fork
    has_other = fork is not None and fork.system is not None and ask.turn >= fork.turn
    if has_other or (opening.messages and opening.messages[0].role == "system"):
        system, messages = messages[0].content, messages[1:]
    return system, messages[1:] if prepared.case.messages and ask.window is None else messages

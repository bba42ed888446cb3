"""The evidence for checks of the user's own: a reply and the conversation that it belongs to."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import chain

from rejoinder.formatting.globs import is_guideline_file
from rejoinder.model import Case, Evidence, FilePart, Formatting, Prompt, Reply, Said, Segment, TextPart


def gather_evidence(
    case: Case,
    prompt: Prompt,
    said: tuple[Said, ...],
    reply: Reply,
    formatting: Formatting,
    *,
    target: str,
    trial: int,
) -> Evidence:
    """`prompt` is the question of this turn, `said` every turn up to it."""
    files = [part for message in case.messages for part in message.parts if isinstance(part, FilePart)]
    paths = {part.path: part.resolved or part.path for part in files}
    patterns = formatting.guideline_patterns
    guidelines = list(dict.fromkeys(part.path for part in files if is_guideline_file(part, patterns)))
    others = [path for path in paths if path not in guidelines]
    return Evidence(
        question=prompt.question,
        expected_outcome=case.outcome or "",
        reference_answer=prompt.reference_answer,
        candidate_answer=reply.text,
        guideline_paths=tuple(paths[path] for path in guidelines),
        input_files=tuple(paths[path] for path in (*guidelines, *others)),
        input_segments=tuple(_segments(case, guidelines)),
        case_id=case.id,
        name=case.name,
        tags=case.tags,
        vars=case.variables,
        metadata=case.metadata,
        target=target,
        trial=trial,
        turn=len(said),
        turns=said,
        input_messages=prompt.turns,
        expected_messages=prompt.expected_messages,
        guidelines=prompt.guidelines,
        model=reply.model,
        finish_reason=reply.finish_reason,
        tool_calls=reply.tool_calls,
        usage=reply.usage,
        cost=reply.cost,
        latency_s=reply.latency_s,
    )


def _segments(case: Case, guidelines: Collection[str]) -> Iterator[Segment]:
    """Guidelines are left out, as AgentV does: they are given apart."""
    for part in chain.from_iterable(message.parts for message in case.messages):
        if isinstance(part, TextPart):
            yield Segment("text", value=part.text)
        elif isinstance(part, FilePart) and part.path not in guidelines:
            yield Segment("file", path=part.path, text=part.text or "", resolved_path=part.resolved or "")

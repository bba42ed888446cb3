"""The ready-made criteria of `faithful`, `relevant` and `complete`.

Verdicts by other words cannot be compared, so words are never changed without a new version: a test holds the digest of
each. Results have the version, and judge tests the digest.
"""

from __future__ import annotations

from msgspec import Struct

from rejoinder.model import Complete, Faithful, ReadyJudge, Relevant


class ReadyCriteria(Struct, frozen=True):
    version: str
    words: str
    sections: tuple[str, ...]
    """The sections of the judge's prompt, in order."""


_FAITHFUL = """\
Grade whether the candidate's answer is faithful to the context: whether the context supports everything that the \
answer claims. The context alone counts, and not what you know. A claim that is true but not in the context is not \
supported; a claim that the context makes is supported, even if you know better.

Go through the claims of the answer one by one: every fact, number, name, date, condition, cause and instruction.
- A claim is supported if the context states it in any words, or if it follows from the context directly, by \
arithmetic for example.
- A claim is not supported if the context says nothing about it, says it only of something else, or contradicts it.
- Greetings, questions and offers of help are not claims. "The context does not say this" is supported if that is \
so. An answer that makes no claim is faithful.

Score 1.0 if every claim is supported; 0.6 to 0.9 if the only claims without support are side details on which \
no reader would rely; at most 0.4 if a claim on which a reader could rely is not supported; 0.0 if one contradicts the \
context or most are not supported. Whether the answer is complete, helpful or well written does not matter. Among \
the misses, quote each claim that is not supported."""

_RELEVANT = """\
Grade whether the candidate's answer is relevant: whether it addresses the question. If the question is a \
conversation, what its user asked last counts, understood in the light of what was said before.

- An answer addresses the question if it gives what was asked for: each part of it, and not just something about the \
same subject.
- Whether the answer is true does not matter here: a wrong answer to the question is relevant.
- An answer that evades, or only says that it does not know, does not address the question. One that asks for a \
detail without which no answer is possible does.
- A refusal addresses the question if it says what is refused and why.

Score 1.0 if the whole question is addressed and the answer keeps to it; 0.6 to 0.9 if a small part is not \
addressed, or something beside the point is added; at most 0.4 if the main thing that was asked for is not \
addressed; 0.0 if nothing of it is. Among the hits, name the parts of the question that are addressed; among the \
misses, those that are not, and what is beside the point."""

_COMPLETE = """\
Grade whether the candidate's answer is complete: whether it has every point that a complete answer to the question \
needs.

Find these points first:
- The expected outcome names them, if there is one. A reference answer shows them by example, if there is one; its \
words and its order do not matter.
- If there is neither, they are those points of the context that the question asks for, and no others.

Then look for each point in the answer. A point is there if the answer makes it in any words, or if it follows from \
the answer directly. A point that the answer gets wrong is missing. More than is needed does no harm, and neither do \
brevity and style.

Score 1.0 if every point is there; 0.6 to 0.9 if only a side detail is missing; at most 0.4 if a point that matters \
is missing; 0.0 if most are. Among the hits, name the points that are there; among the misses, those that are \
missing or wrong."""

READY_JUDGES: dict[type[ReadyJudge], ReadyCriteria] = {
    Faithful: ReadyCriteria("faithful/1", _FAITHFUL, ("question", "context", "candidate_answer")),
    Relevant: ReadyCriteria("relevant/1", _RELEVANT, ("question", "candidate_answer")),
    Complete: ReadyCriteria(
        "complete/1", _COMPLETE, ("question", "expected_outcome", "reference_answer", "context", "candidate_answer")
    ),
}

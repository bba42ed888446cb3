"""`tool_state`: what the conversation has left in a tool. The tool is asked once, and its answer is recorded."""

from __future__ import annotations

from msgspec import structs

from rejoinder.checks.base import Context, error_verdict, scored_verdict, verdict
from rejoinder.checks.registry import grade, grades
from rejoinder.model import Failure, Reply, ToolState, Verdict
from rejoinder.words.numbers import shortened

LONGEST_QUOTE = 200


@grades(ToolState)
async def grade_tool_state(check: ToolState, context: Context) -> Verdict:
    answer = await context.port.ask_tool(check.tool, check.arguments)
    if isinstance(answer, Failure):
        return error_verdict(check, check.tool, answer.message)
    said = shortened(answer.text, LONGEST_QUOTE) or "nothing"
    if answer.failed:
        return verdict(check, check.tool, False, f"the tool failed: {said}")
    reply = Reply(answer.text, context.reply.usage)
    [inner] = await grade((check.check,), structs.replace(context, reply=reply, lack=None))
    inner = structs.replace(inner, spans=())  # they are places in the answer, not in the reply
    if inner.state == "error":
        return error_verdict(check, check.tool, inner.reason, children=(inner,))
    reason = f"it answered {said}"
    return scored_verdict(check, check.tool, inner.passed, reason, score=inner.score, children=(inner,))

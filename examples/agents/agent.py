"""An agent without a model: it does half of the work, and the rest when it is shown which test fails.

It speaks the Agent Client Protocol, version 1, as real agents do: JSON-RPC, one message a line.
"""

import json
import pathlib
import sys


def send(**message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def update(sort, **values):
    send(method="session/update", params={"sessionId": "one", "update": {"sessionUpdate": sort, **values}})


def edit(turn, old, new):
    """Change slugs.py, if that is allowed."""
    call = {"toolCallId": f"edit-{turn}", "title": "Edit", "kind": "edit", "rawInput": {"old": old, "new": new}}
    update("tool_call", status="pending", **call)
    options = [{"optionId": kind, "name": kind, "kind": kind} for kind in ("allow_once", "reject_once")]
    asked = {"sessionId": "one", "toolCall": call, "options": options}
    send(id=f"may-{turn}", method="session/request_permission", params=asked)
    if "allow_once" not in sys.stdin.readline():
        return "I may not change slugs.py."
    file = pathlib.Path("slugs.py")
    file.write_text(file.read_text().replace(old, new))
    update("tool_call_update", toolCallId=f"edit-{turn}", status="completed")
    return "I have repaired slugs.py."


def work(turn, prompt):
    if "test_white_space" in prompt:
        return edit(turn, 'title.lower().replace(" ", "-")', '"-".join(title.lower().split())')
    return edit(turn, "title.replace", "title.lower().replace")


def main():
    turn = 0
    for line in sys.stdin:
        message = json.loads(line)
        result = {"protocolVersion": 1, "agentInfo": {"name": "scripted-agent", "version": "1"}}
        if message["method"] == "session/new":
            result = {"sessionId": "one"}
        elif message["method"] == "session/prompt":
            turn += 1
            text = work(turn, message["params"]["prompt"][0]["text"])
            update("agent_message_chunk", content={"type": "text", "text": text})
            result = {"stopReason": "end_turn"}
        if "id" in message:
            send(id=message["id"], result=result)


main()

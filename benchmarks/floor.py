"""The floor under a conversation: a bare asyncio loop that suspends once a turn, encodes request and reply with
msgspec and keeps the history. No checks, no journal, no results. Prints seconds for a number of conversations."""

from __future__ import annotations

import asyncio
import sys
import time

import msgspec

TURNS = 2


class Message(msgspec.Struct):
    role: str
    content: str


async def converse(encode: msgspec.json.Encoder) -> int:
    history = [Message("user", "What is 15 * 7?")]
    size = 0
    for turn in range(TURNS):
        size += len(encode.encode(history))
        await asyncio.sleep(0)
        reply = Message("assistant", "100" if turn == 0 else "15 * 7 = 105")
        size += len(encode.encode(reply))
        history += [reply, Message("user", "That is not right. Please calculate again.")]
    return size


async def run(conversations: int) -> None:
    encode = msgspec.json.Encoder()
    await asyncio.gather(*(converse(encode) for _ in range(conversations)))


def measure(conversations: int) -> float:
    started = time.perf_counter()
    asyncio.run(run(conversations))
    return time.perf_counter() - started


if __name__ == "__main__":
    print(measure(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000))

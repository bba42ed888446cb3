"""A thousand cases of 50 ms each with 50 workers, from the start of the process to its end.

Beside the ideal, in which no worker waits for anything but the model, and a client on asyncio's streams that sends the
same requests, looks into the answers and keeps nothing.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

from timing import (
    PYTHON,
    REJOINDER,
    Row,
    alternate,
    compile_package,
    fake_server,
    read_runs,
    say_load,
    show,
    time_process,
)

CASES, WORKERS, LATENCY_S = 1_000, 50, 0.05
IDEAL_BOUND, RAW_BOUND = 1.4, 1.25
SUITE = """\
metadata: {model: asked}
targets: [{name: asked, provider: openai, model: gpt-5-mini, base_url: URL}]
cases: cases.jsonl
defaults: {checks: [{contains: "105"}]}
"""
QUESTION = "What is 15 * 7? Number %d."


def main() -> int:
    if sys.argv[1:2] == ["--client"]:
        asyncio.run(ask_all(sys.argv[2]))
        return 0
    runs = read_runs(__doc__, 7)
    compile_package()
    say_load()
    with tempfile.TemporaryDirectory() as name, fake_server(LATENCY_S) as url:
        folder = Path(name)
        (folder / ".rejoinder").mkdir()
        (folder / "evals.yaml").write_text(SUITE.replace("URL", url), encoding="utf-8")
        cases = (json.dumps({"id": f"case-{number}", "prompt": QUESTION % number}) for number in range(CASES))
        (folder / "cases.jsonl").write_text("\n".join(cases), encoding="utf-8")
        os.environ |= {"OPENAI_API_KEY": "none", "XDG_CACHE_HOME": str(folder / "cache")}
        ours = [REJOINDER, "run", "evals.yaml", "--workers", str(WORKERS)]
        raw = [PYTHON, __file__, "--client", url]
        medians = alternate(
            {"ours": lambda: time_process(ours, folder), "raw": lambda: time_process(raw, folder)}, runs
        )
    ideal = CASES * LATENCY_S / WORKERS
    what = f"{CASES:,} cases at {LATENCY_S * 1000:g} ms, {WORKERS} workers"
    return show(
        [
            Row(f"{what} / ideal", medians["ours"], ideal, IDEAL_BOUND),
            Row(f"{what} / raw asyncio client", medians["ours"], medians["raw"], RAW_BOUND),
        ]
    )


async def ask_all(url: str) -> None:
    numbers = iter(range(CASES))
    place = urlsplit(url)

    async def work() -> None:
        reader, writer = await asyncio.open_connection(place.hostname, place.port)
        for number in numbers:
            asked = {"model": "gpt-5-mini", "messages": [{"role": "user", "content": QUESTION % number}]}
            body = json.dumps(asked).encode()
            head = (
                f"POST {place.path}/chat/completions HTTP/1.1\r\nhost: {place.netloc}\r\n"
                "authorization: Bearer none\r\ncontent-type: application/json\r\n"
                f"content-length: {len(body)}\r\n\r\n"
            )
            writer.write(head.encode() + body)
            answer = json.loads(await read_answer(reader))
            assert "105" in answer["choices"][0]["message"]["content"]
        writer.close()

    await asyncio.gather(*(work() for _ in range(WORKERS)))


async def read_answer(reader: asyncio.StreamReader) -> bytes:
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    assert b" 200 " in head, head
    return await reader.readexactly(int(head.partition(b"content-length:")[2].split()[0]))


if __name__ == "__main__":
    sys.exit(main())

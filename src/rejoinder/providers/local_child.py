"""The process that runs llama.cpp: a server on loopback, until standard input ends.

It is a separate process because llama.cpp aborts, crashes or hangs in ordinary situations, such as too little memory.
It is started as a file and imports nothing of rejoinder. The first line of standard input says what to load; the first
line of standard output is the server's address.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

_PR_SET_PDEATHSIG = 1


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when it ends
    _die_with_parent()
    settings = json.loads(sys.stdin.buffer.readline())
    llama = import_module("xllamacpp")
    server = llama.Server(_parameters(llama, settings))
    try:
        sys.stdout.write(json.dumps({"address": server.listening_address}) + "\n")
        sys.stdout.flush()
        sys.stdin.buffer.read()  # ends with the parent, however that ends
    finally:
        os._exit(0)  # the server may hang or crash when it is taken down


def _die_with_parent() -> None:
    """End with the parent. While a file is loaded nothing reads standard input, and loading a hostile file may never
    end. If memory runs out, this process is the one to be killed."""
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() == 1:  # it was too late
        os._exit(0)
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def _parameters(llama: Any, settings: dict[str, Any]) -> Any:
    params = llama.CommonParams()
    params.model.path = settings["path"]
    params.model_alias = {settings["name"]}
    params.n_parallel = settings["slots"]
    params.n_ctx = settings["context"] * settings["slots"]  # it is divided among the slots
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = settings["threads"]
    params.api_keys = [settings["key"]]
    params.cache_ram_mib = 64
    params.verbosity = 1  # errors; the first says why a file cannot be loaded
    params.fit_params = params.ui = params.endpoint_slots = False
    if settings["embeds"]:
        params.embedding = True
        if settings["pooling"]:
            params.pooling_type = getattr(llama.llama_pooling_type, f"LLAMA_POOLING_TYPE_{settings['pooling'].upper()}")
    return params


if __name__ == "__main__":
    main()

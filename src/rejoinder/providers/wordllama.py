"""`wordllama`: embeddings of a small model inside the Python package wordllama (extra `semantic`).

Its weights and its tokenizer are files of the package, so nothing is fetched and no key is needed. A text's vector is
the mean of its tokens' vectors. Loading takes half a second, so it waits for the first text, in a thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Generator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from rejoinder.errors import UsageError
from rejoinder.model import Reply, Request, Target
from rejoinder.providers.base import ProviderError

NAME = "wordllama"
"""The name of the provider, of the target that needs no definition, and of the package."""
PIECE = 100_000
"""Characters tokenized at once, so that a long text needs no more memory than a short one."""


@lru_cache(maxsize=1)
def is_installed() -> bool:
    """Whether wordllama is installed, without importing it."""
    from importlib.util import find_spec

    return find_spec(NAME) is not None


class WordLlamaProvider:
    outside = False
    limiter = None

    def __init__(self, target: Target, *_: object) -> None:
        if not is_installed():
            from rejoinder.installing import install_hint

            message = f"target `{target.name}` needs the package {NAME}, which is not installed"
            raise UsageError(message, install_hint("semantic"))
        from concurrent.futures import ThreadPoolExecutor

        self._thread = ThreadPoolExecutor(1, "rejoinder-wordllama")

    async def reply(self, request: Request) -> Reply:
        if request.embed is None:
            message = f"the provider `{NAME}` gives only embeddings, no replies"
            raise ProviderError(message, type="request", ends_target=True)
        try:
            vector = await asyncio.get_running_loop().run_in_executor(self._thread, _embed, request.embed)
        except (ImportError, OSError) as error:  # OSError: files of the package are missing
            raise ProviderError(f"the package {NAME} cannot be loaded: {error}", ends_target=True) from error
        return Reply("", vector=vector, model=NAME)

    async def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)


def _embed(text: str) -> bytes:
    import numpy

    model = _load_model()
    text = text.encode("utf-8", "replace").decode()  # half a character is none
    counts = numpy.zeros(len(model.embedding), numpy.float32)
    for start in range(0, len(text), PIECE):
        ids = model.tokenizer.encode(text[start : start + PIECE], add_special_tokens=False).ids
        counts += numpy.bincount(numpy.array(ids, numpy.intp), minlength=len(counts))
    used = counts.nonzero()[0]
    mean = counts[used] @ model.embedding[used] / max(counts.sum(), 1)
    return mean.astype("<f4").tobytes()


@lru_cache(maxsize=1)
def _load_model() -> Any:
    with _root_logger_kept():
        import wordllama

    # The loader looks for the tokenizer beside the folder that holds it; as a cache, the package's folder is right.
    folder = Path(wordllama.__file__).parent
    return wordllama.WordLlama.load(cache_dir=folder, disable_download=True)


@contextmanager
def _root_logger_kept() -> Generator[None]:
    """Restore the root logger, which belongs to the program: importing wordllama configures it."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)

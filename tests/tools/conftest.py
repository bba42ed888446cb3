from __future__ import annotations

from collections.abc import Iterator
from threading import Thread

import pytest

from tests.tools.listener import Listener


@pytest.fixture
def listener() -> Iterator[Listener]:
    with Listener() as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()

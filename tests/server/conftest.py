"""What tests of the server are given."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.server.kit import Listener


@pytest.fixture
def listener() -> Iterator[Listener]:
    made = Listener()
    yield made
    made.socket.close()

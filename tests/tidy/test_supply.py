"""The list of what this project is made of names every locked package, and advisories are read as they come."""

from tests.tidy.supply import bill_of_materials, told
from tests.tidy.test_lock import LOCK, pins


def test_the_list_has_every_locked_package_with_its_hashes() -> None:
    listed = bill_of_materials()["components"]
    assert [(one["name"], one["version"]) for one in listed] == [(name, version) for name, version, _ in pins(LOCK)]
    assert all(len(digest["content"]) == 64 for one in listed for digest in one["hashes"])
    assert all(one["hashes"] for one in listed)


def test_advisories_are_told_with_the_package_that_they_are_about() -> None:
    answer = {"results": [{}, {"vulns": [{"id": "GHSA-1"}, {"id": "PYSEC-2"}]}]}
    assert dict(told([("sound", "1"), ("unsound", "2")], answer)) == {"unsound 2": ["GHSA-1", "PYSEC-2"]}

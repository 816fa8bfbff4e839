"""The dashboard and the rules ask for metrics that there are."""

from __future__ import annotations

import json
import re

from docs.generators.monitoring import PANELS, RULES, dashboard, own_families, rules, shared_families

SUFFIXES = ("", "_bucket", "_sum", "_count")


def names() -> set[str]:
    told: set[str] = set()
    for family in [*own_families(), *shared_families()]:
        told |= {family.name + suffix for suffix in SUFFIXES} if family.kind == "histogram" else {family.name}
    return told


def test_every_metric_that_is_asked_for_is_told() -> None:
    asked = " ".join(expression for _, expression, *_ in (*PANELS, *RULES))
    assert set(re.findall(r"wakeful_\w+", asked)) <= names()


def test_every_label_that_is_asked_for_is_there() -> None:
    labels = {family.name: set(family.labels) for family in [*own_families(), *shared_families()]}
    for _, expression, *_ in (*PANELS, *RULES):
        wanted = {one.strip() for found in re.findall(r"by \(([^)]*)\)", expression) for one in found.split(",")} - {
            "le"
        }
        asked = {re.sub(r"_bucket$", "", name) for name in re.findall(r"wakeful_\w+", expression)}
        assert all(wanted <= labels[name] for name in asked), expression


def test_names_say_what_they_are() -> None:
    for family in [*own_families(), *shared_families()]:
        assert family.name.startswith("wakeful_")
        assert family.name.endswith("_total") == (family.kind == "counter")


def test_the_files_can_be_read() -> None:
    assert len(json.loads(dashboard())["panels"]) == len(PANELS)
    assert rules().count("- alert:") == len(RULES)

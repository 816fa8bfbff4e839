"""What tasks, queues and labels may be called, and how values are shown in sentences."""

from __future__ import annotations

from typing import Any

import pytest

from wakeful.values.errors import InvalidOption
from wakeful.values.names import label, queue_name, task_name
from wakeful.values.number import real_number, whole_number
from wakeful.values.wording import shown


@pytest.mark.parametrize("name", ["mail.send", "a", "höhe", "app.tasks:send", "x" * 200, "日本"])
def test_a_task_name(name: str) -> None:
    assert task_name(name) == name


@pytest.mark.parametrize("name", ["", " ", "a b", "a\nb", "a\x00", "\ud800", "x" * 201, None, 5, b"a"])
def test_no_task_name(name: Any) -> None:
    with pytest.raises(InvalidOption) as refused:
        task_name(name)
    assert refused.value.option == "task"


@pytest.mark.parametrize("name", ["default", "mail-fast", "x" * 100])
def test_a_queue_name(name: str) -> None:
    assert queue_name(name) == name


@pytest.mark.parametrize("name", ["a:4", "a,b", "a b", "", "x" * 101])
def test_no_queue_name(name: str) -> None:
    with pytest.raises(InvalidOption, match=r"^queue"):
        queue_name(name)


def test_a_label_may_have_spaces() -> None:
    assert label("Ada Lovelace", "created_by") == "Ada Lovelace"
    with pytest.raises(InvalidOption, match="tenant has 201 bytes of UTF-8: 200 at most"):
        label("x" * 201, "tenant")
    with pytest.raises(InvalidOption, match="tenant has 202 bytes"):
        label("ä" * 101, "tenant")


def test_numbers_within_bounds() -> None:
    assert whole_number(3, "limit", 1, 3) == 3
    assert real_number(2, "rate", 0) == 2.0
    for value in (0, 4, True, 1.0, "1", None):
        with pytest.raises(InvalidOption, match=r"limit is .*: give a whole number from 1 to 3"):
            whole_number(value, "limit", 1, 3)
    for number in (-1, float("nan"), float("inf"), 10**400, True, "1"):
        with pytest.raises(InvalidOption, match=r"rate is .*: give a number of 0 or more"):
            real_number(number, "rate", 0)


class Broken:
    def __repr__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a", "'a'"),
        ("\ud800\n", "'\\ud800\\n'"),
        (Broken(), "<Broken>"),
        ("x" * 100, "'" + "x" * 58 + "…"),
    ],
)
def test_any_value_can_be_shown(value: object, text: str) -> None:
    assert shown(value) == text


def test_an_integer_that_python_does_not_print_can_be_shown() -> None:
    assert shown(10**5000) == "int of more than 4300 digits"

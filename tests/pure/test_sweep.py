"""One bad job stops no other; a database that is gone stops all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast
from uuid import UUID, uuid4

import pytest

from wakeful.queue.script import play
from wakeful.queue.sweep import together
from wakeful.statements.statement import Statement
from wakeful.values.errors import DatabaseUnavailable, JobNotFound, WakefulError

IDS = [uuid4() for _ in range(3)]


def act(ids: Sequence[UUID]) -> Statement[int]:
    return Statement("select", {"ids": list(ids)}, len)


class Answers:
    """Does it, but for jobs that have something in their way."""

    def __init__(self, in_the_way: dict[UUID, WakefulError]) -> None:
        self.in_the_way = in_the_way
        self.asked = 0

    def run(self, statement: Statement[Any]) -> Any:
        self.asked += 1
        ids = cast(list[UUID], statement.params["ids"])
        for id in ids:
            if id in self.in_the_way:
                raise self.in_the_way[id]
        return len(ids)


def test_one_that_is_refused_stops_no_other() -> None:
    refused: list[WakefulError] = []
    missing = JobNotFound(IDS[1])
    assert play(Answers({IDS[1]: missing}), together(IDS, act, refused.append)) == 2
    assert refused == [missing]


@pytest.mark.parametrize("ids", [IDS, IDS[:1]], ids=["many", "one"])
def test_a_database_that_is_gone_is_told_at_once_and_refuses_nobody(ids: list[UUID]) -> None:
    refused: list[WakefulError] = []
    database = Answers({IDS[0]: DatabaseUnavailable("gone")})
    with pytest.raises(DatabaseUnavailable):
        play(database, together(ids, act, refused.append))
    assert (database.asked, refused) == (1, [])

"""A server that is killed after it woke a worker for a job, and before that job had reached the disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from tests.chaos.server import Server, private_server
from tests.sessions import query, scalar, session
from tests.verbs import fall_asleep, register, worker_claim
from wakeful.database.session import Database
from wakeful.produce.delivery import Ask, deliver_apart
from wakeful.produce.drive import drive
from wakeful.statements.enqueue import enqueue
from wakeful.statements.statement import Statement
from wakeful.values.identity import new_id
from wakeful.values.job import NewJob

T = TypeVar("T")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """Its own writer leaves alone what no commit waits for, or the tests would be about how quick that is."""
    with private_server(tmp_path / "server", wal_writer_delay="10s") as made:
        yield made


class KilledOnce(Database):
    """Its server is killed when it is first asked to reach the disk."""

    def __init__(self, server: Server) -> None:
        super().__init__(server.dsn)
        self._server = server
        self.killed = False

    def run(self, statement: Statement[T]) -> T:
        if "reach_disk" in statement.sql and not self.killed:
            self.killed = True
            self._server.kill()
            self._server.start()
        return super().run(statement)


def test_a_job_that_is_lost_before_it_reached_the_disk_is_sent_again(server: Server) -> None:
    job = NewJob(new_id(), "t", "{}")
    with session(server.dsn) as db:
        fall_asleep(db)
    database = KilledOnce(server)
    try:
        [answer] = drive(deliver_apart([Ask(job, fresh=True)], poke=True), database)
    finally:
        database.close()
    assert database.killed
    assert answer == job.id
    with session(server.dsn) as db:
        assert [row["id"] for row in query(db, "select id from wakeful.job")] == [job.id]


@pytest.mark.parametrize("claimed", [True, False])
def test_a_claim_takes_the_job_to_the_disk_with_it(server: Server, claimed: bool) -> None:
    """Without one the job is gone, which shows that the server had not kept it by chance."""
    job = NewJob(new_id(), "t", "{}")
    database = Database(server.dsn)
    try:
        with session(server.dsn) as db:
            worker = register(db)
            fall_asleep(db)
            [id] = database.run(enqueue([job], fresh=True, alone=True))
            assert id is not None
            assert id.action == "ahead"
            if claimed:
                [held], _ = worker_claim(db, worker)
                assert held.id == job.id
            server.kill()
    finally:
        database.close()
    server.start()
    with session(server.dsn) as db:
        assert scalar(db, "select count(*) from wakeful.job") == int(claimed)

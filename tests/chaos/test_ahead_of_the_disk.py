"""A server that is killed after it woke a worker for a job, and before that job had reached the disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar
from uuid import UUID

import pytest

from tests.chaos.evidence import WITNESS, gather
from tests.chaos.history import History
from tests.chaos.invariants import broken
from tests.chaos.server import Server, private_server
from tests.sessions import query, scalar, session, take_out
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
    with private_server(tmp_path / "server", tables=WITNESS, wal_writer_delay="10s") as made:
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


def enqueue_while_it_is_killed(server: Server, history: History) -> UUID:
    """The id that the client was answered."""
    job = NewJob(new_id(), "t", "{}")
    with session(server.dsn) as db:
        fall_asleep(db)
    database = KilledOnce(server)
    history.ask((job.id, job.task))
    try:
        [answer] = drive(deliver_apart([Ask(job, fresh=True)], poke=True), database)
    finally:
        database.close()
    assert database.killed
    assert answer == job.id
    history.answer((job.id, job.id))
    return job.id


def test_a_job_that_is_lost_before_it_reached_the_disk_is_sent_again(server: Server, tmp_path: Path) -> None:
    id = enqueue_while_it_is_killed(server, History(tmp_path))
    with session(server.dsn) as db:
        assert [row["id"] for row in query(db, "select id from wakeful.job")] == [id]


def test_an_answer_without_a_look_for_the_job_is_caught(server: Server, tmp_path: Path) -> None:
    with session(server.dsn) as db:
        take_out(db, "reach_disk_1", "return missing", "return true or missing")
    enqueue_while_it_is_killed(server, History(tmp_path))
    with session(server.dsn) as db:
        assert {1, 2} <= broken(gather(db, History(tmp_path))).keys()


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

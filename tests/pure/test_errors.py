"""One tree of errors: each is picklable, carries its facts and ends in what to do."""

from __future__ import annotations

import copy
import inspect
import pickle
from uuid import UUID

import pytest

from wakeful.values import errors
from wakeful.values.errors import (
    BY_SQLSTATE,
    BreakerOpen,
    ConfigError,
    DatabaseUnavailable,
    DuplicateJob,
    EmbeddedServerError,
    InvalidOption,
    JobNotFound,
    LeaseLapsed,
    MigrationError,
    PayloadError,
    QueueFull,
    Refused,
    SchemaMismatch,
    StaleClaim,
    UnknownTask,
    WakefulError,
)

JOB = UUID("01890a5d-ac96-774b-bcce-b302099a8057")

samples = [
    PayloadError("order.lines[3].price", "is nan, which JSON cannot hold: send None."),
    PayloadError("", "nests too deeply: flatten it."),
    InvalidOption("jitter", "is 2: give a share from 0 to 1."),
    ConfigError("WAKEFUL_DSN", "is empty: give a connection string."),
    DuplicateJob(JOB, task="mail.send", dedup_key="k"),
    StaleClaim(JOB),
    JobNotFound(JOB),
    Refused("The job is running. Cancel it first.", job_id=JOB, state="running"),
    LeaseLapsed(JOB),
    SchemaMismatch("too old", found=1, wanted=2),
    SchemaMismatch("too new", found=3, wanted=2),
    SchemaMismatch("missing"),
    DatabaseUnavailable("No server answers at localhost:5432. Start it.", address="localhost:5432"),
    EmbeddedServerError("The folder is not writable. Choose another.", directory="/x"),
    MigrationError("0002_more failed. Nothing was changed; mend it and run again.", migration="0002_more"),
    UnknownTask("mial.send", ["mail.send", "a.b"]),
    QueueFull("mail", pending=100, max_pending=100),
    BreakerOpen("smtp", 30.0),
]


@pytest.mark.parametrize("error", samples, ids=lambda error: type(error).__name__)
def test_an_error_survives_pickling_and_copying_with_all_its_facts(error: WakefulError) -> None:
    error.add_note("seen by the caller")
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):  # noqa: S301
        assert type(twin) is type(error)
        assert str(twin) == str(error)
        assert twin.args == error.args
        assert twin.__dict__ == error.__dict__


@pytest.mark.parametrize("error", samples, ids=lambda error: type(error).__name__)
def test_a_message_is_a_sentence_that_can_be_shown(error: WakefulError) -> None:
    assert error.message == str(error)
    assert error.message.endswith((".", "…"))
    assert "\n" not in error.message
    assert "None" not in error.message.replace("send None", "")


def test_every_error_is_of_one_tree_and_has_a_docstring_of_its_own() -> None:
    kinds = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, BaseException)]
    assert len(kinds) == 16
    assert all(issubclass(kind, WakefulError) for kind in kinds)
    assert all(vars(kind).get("__doc__") for kind in kinds)


def test_every_state_that_sql_raises_can_be_built_from_the_servers_sentence() -> None:
    assert list(BY_SQLSTATE) == [f"WF00{number}" for number in range(1, 9)]
    for state, kind in BY_SQLSTATE.items():
        error = kind(message="The server said so. Do this.")
        assert kind.sqlstate == state
        assert str(error) == "The server said so. Do this."


def test_facts_are_attributes() -> None:
    assert PayloadError("a.b", "is bad: mend it.").field == "a.b"
    assert str(PayloadError("a.b", "is bad: mend it.")) == "Payload field `a.b` is bad: mend it."
    assert str(PayloadError("", "is bad: mend it.")) == "The payload is bad: mend it."
    assert DuplicateJob(JOB).existing_id == JOB
    assert str(JOB) in str(StaleClaim(JOB))
    assert UnknownTask("x", ["b", "a"]).known == ("a", "b")
    assert SchemaMismatch("too old", found=1, wanted=2).found == 1


def test_no_two_errors_are_confused_by_their_state() -> None:
    states = [kind.sqlstate for kind in WakefulError.__subclasses__() if kind.sqlstate]
    assert len(states) == len(set(states))

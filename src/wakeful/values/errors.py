"""One tree of errors, named for what the caller can do about them.

Every message is a sentence or two that ends in what to do; the facts are attributes as well. Each error
pickles, so it crosses process boundaries whole. An error that SQL raises carries its reserved SQLSTATE in
`sqlstate`, and can be built from the server's own sentence alone: `StaleClaim(message="…")`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import ClassVar, Literal, TypeVar
from uuid import UUID

E = TypeVar("E", bound="WakefulError")


def _restore(kind: type[E], args: tuple[object, ...], state: dict[str, object]) -> E:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class WakefulError(Exception):
    """The root: `except WakefulError` catches everything that wakeful raises of its own accord."""

    sqlstate: ClassVar[str | None] = None

    def __init__(self, message: str) -> None:
        super().__init__(message)

    @property
    def message(self) -> str:
        """The sentence, without the class name."""
        return str(self)

    def __reduce__(self) -> tuple[object, ...]:
        # Subclasses take facts, not the finished sentence: pickle must not call their __init__ with `args`.
        return _restore, (type(self), self.args, dict(self.__dict__))


class PayloadError(WakefulError):
    """An argument or a result that cannot travel as JSON.

    `field` is the path to the value (`order.lines[3].price`), empty for the payload as a whole; `problem`
    begins with a verb and ends in what to do.
    """

    def __init__(self, field: str = "", problem: str = "cannot be stored.", *, message: str | None = None) -> None:
        self.field = field
        self.problem = problem
        super().__init__(message or f"{f'Payload field `{field}`' if field else 'The payload'} {problem}")


class InvalidOption(WakefulError):
    """An option or argument of ours with a value that it cannot have; `option` names it."""

    sqlstate = "WF003"

    def __init__(self, option: str = "", problem: str = "is not valid.", *, message: str | None = None) -> None:
        self.option = option
        self.problem = problem
        super().__init__(message or f"{option or 'An option'} {problem}")


class ConfigError(WakefulError):
    """A setting (flag, variable or line of wakeful.toml) that cannot be used; `setting` names it."""

    def __init__(self, setting: str = "", problem: str = "is not valid.", *, message: str | None = None) -> None:
        self.setting = setting
        self.problem = problem
        super().__init__(message or f"{setting or 'A setting'} {problem}")


class DuplicateJob(WakefulError):
    """A live job has the same task and dedup key, and the caller asked for `dedup="raise"`."""

    sqlstate = "WF002"

    def __init__(
        self,
        existing_id: UUID | None = None,
        *,
        task: str | None = None,
        dedup_key: str | None = None,
        message: str | None = None,
    ) -> None:
        self.existing_id = existing_id
        self.task = task
        self.dedup_key = dedup_key
        super().__init__(
            message
            or f"Job {existing_id or 'already queued'} is live with the same dedup key. "
            'Wait for it, or pass dedup="skip" to be given its id.'
        )


class StaleClaim(WakefulError):
    """The fence refused: the lease was lost, the job is settled already, or another worker has claimed it."""

    sqlstate = "WF001"

    def __init__(self, job_id: UUID | None = None, *, message: str | None = None) -> None:
        self.job_id = job_id
        super().__init__(
            message
            or f"The claim on job {job_id or '(unknown)'} no longer holds, so nothing was changed. "
            "Drop this attempt's work: whoever holds the job now settles it."
        )


class JobNotFound(WakefulError):
    """No job with this id, live or finished (history is dropped after its retention)."""

    sqlstate = "WF004"

    def __init__(self, job_id: UUID | None = None, *, message: str | None = None) -> None:
        self.job_id = job_id
        super().__init__(
            message or f"There is no job {job_id or 'with that id'}. Check the id with `wakeful jobs list`."
        )


class Refused(WakefulError):
    """What was asked is not possible in the state that the job, queue or switch is in."""

    sqlstate = "WF005"

    def __init__(self, message: str, *, job_id: UUID | None = None, state: str | None = None) -> None:
        self.job_id = job_id
        self.state = state
        super().__init__(message)


class LeaseLapsed(WakefulError):
    """The worker's own lease has lapsed, and its jobs may be someone else's by now."""

    sqlstate = "WF006"

    def __init__(self, worker_id: UUID | None = None, *, message: str | None = None) -> None:
        self.worker_id = worker_id
        super().__init__(
            message
            or f"The lease of worker {worker_id or '(unknown)'} has lapsed. Stop its handlers, then register again."
        )


class QueueFull(WakefulError):
    """The queue has as many jobs waiting as it may (`max_pending`), so the job was not taken."""

    sqlstate = "WF008"

    def __init__(
        self,
        queue: str | None = None,
        *,
        pending: int | None = None,
        max_pending: int | None = None,
        message: str | None = None,
    ) -> None:
        self.queue = queue
        self.pending = pending
        self.max_pending = max_pending
        super().__init__(
            message or f"Queue {queue or '(unknown)'} has as many jobs waiting as it may. Try again later."
        )


class BreakerOpen(WakefulError):
    """A circuit breaker is open: the call was not made. In a handler it snoozes the job until the next probe."""

    code = "breaker_open"

    def __init__(self, breaker: str = "", retry_in: float = 0.0, *, message: str | None = None) -> None:
        self.breaker = breaker
        self.retry_in = retry_in
        super().__init__(message or f"Breaker {breaker or '(unknown)'} is open. Try again in {retry_in:.0f} s.")


SchemaState = Literal["missing", "too old", "too new"]

_SCHEMA_ADVICE: Mapping[SchemaState, str] = MappingProxyType(
    {
        "missing": "has no wakeful schema. Run `wakeful migrate up`.",
        "too old": "has a wakeful schema that is too old for this version. Run `wakeful migrate up`.",
        "too new": "has a wakeful schema that is too new for this version. Upgrade the wakeful package.",
    }
)


class SchemaMismatch(WakefulError):
    """The database's schema and this version of the package cannot work together."""

    sqlstate = "WF007"

    def __init__(
        self,
        state: SchemaState = "missing",
        *,
        found: int | None = None,
        wanted: int | None = None,
        message: str | None = None,
    ) -> None:
        self.state = state
        self.found = found
        self.wanted = wanted
        versions = "" if found is None or wanted is None else f" (found {found}, wanted {wanted})"
        super().__init__(message or f"The database{versions} {_SCHEMA_ADVICE[state]}")


class DatabaseUnavailable(WakefulError):
    """No connection, or it was lost. Whether a COMMIT under way took effect is unknown."""

    def __init__(self, message: str, *, address: str | None = None) -> None:
        self.address = address
        super().__init__(message)


class EmbeddedServerError(WakefulError):
    """The embedded PostgreSQL cannot be started, joined or stopped; `directory` is its folder."""

    def __init__(self, message: str, *, directory: str | None = None) -> None:
        self.directory = directory
        super().__init__(message)


class MigrationError(WakefulError):
    """A migration failed or its file is not the one that was applied; the database is as it was before it."""

    def __init__(self, message: str, *, migration: str | None = None) -> None:
        self.migration = migration
        super().__init__(message)


class UnknownTask(WakefulError):
    """No task of that name is registered with this app."""

    def __init__(self, task: str, known: Iterable[str] = (), *, message: str | None = None) -> None:
        self.task = task
        self.known = tuple(sorted(known))
        listed = f" Known are: {', '.join(self.known)}." if self.known else ""
        super().__init__(
            message or f"No task is named {task!r}.{listed} Import the module that defines it, or correct the name."
        )


BY_SQLSTATE: Mapping[str, type[WakefulError]] = MappingProxyType(
    {
        "WF001": StaleClaim,
        "WF002": DuplicateJob,
        "WF003": InvalidOption,
        "WF004": JobNotFound,
        "WF005": Refused,
        "WF006": LeaseLapsed,
        "WF007": SchemaMismatch,
        "WF008": QueueFull,
    }
)
"""The errors that SQL raises. Each can be made as `kind(message="the server's sentence")`."""

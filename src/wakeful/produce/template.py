"""What all jobs of one configured task have in common."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import UUID

from wakeful.payload import encode
from wakeful.produce.options import Options
from wakeful.statements.enqueue import Alike
from wakeful.statements.statement import Statement
from wakeful.values.current import current_job
from wakeful.values.errors import InvalidOption, PayloadError
from wakeful.values.job import JobId, NewJob
from wakeful.values.retry_json import policy_as_json

_ANY_ID: Final = UUID(int=0)


@dataclass(frozen=True, slots=True)
class Defaults:
    """A task's own say; None where the database decides, as for a task that is not imported here."""

    task: str
    queue: str | None = None
    priority: int | None = None
    max_attempts: int | None = None
    default_off: bool | None = None


@dataclass(frozen=True, slots=True)
class Template:
    """A job but for its id and payload.

    `shares`: nothing sets its jobs apart from others that are enqueued at the same time.
    """

    task: str
    options: Options
    shares: bool
    _middle: tuple[Any, ...]
    _correlation_id: UUID | None
    _parent_id: UUID | None
    _end: tuple[Any, ...]
    _alike: Alike | None

    @property
    def queue(self) -> str | None:
        """Where its jobs go; None where the database decides."""
        queue: str | None = self._middle[0]
        return queue

    def carrying(self, more: Mapping[str, str]) -> Template:
        """The same, with this beside the metadata that its jobs have."""
        created_by, metadata, *rest = self._end
        whole = json.dumps({**({} if metadata is None else json.loads(metadata)), **more})
        alike = None if self._alike is None else self._alike.carrying(whole)
        return replace(self, _end=(created_by, whole, *rest), _alike=alike)

    def job(self, id: UUID, payload: str) -> NewJob:
        """The job. Inside a handler it is the child of the job that the handler runs for."""
        make: Callable[..., NewJob] = NewJob
        return make(id, self.task, payload, *self._middle, *self._origin(), *self._end)

    def alone(self, id: UUID, payload: str) -> Statement[list[JobId | None]] | None:
        """What enqueues this job alone and wakes who runs it, for the first time that it is sent.

        None where there is no short way to it.
        """
        if self._alike is None:
            return None
        correlation_id, parent_id = self._origin()
        return self._alike.enqueue(id, payload, correlation_id, parent_id)

    def _origin(self) -> tuple[UUID | None, UUID | None]:
        correlation_id, parent_id = self._correlation_id, self._parent_id
        if (current := current_job.get()) is not None:
            correlation_id = correlation_id or current.correlation_id
            parent_id = parent_id or current.id
        return correlation_id, parent_id


def template(defaults: Defaults, options: Options) -> Template:
    """Puts the options over the task's defaults, once for all jobs that are made with them."""
    if options.dedup is not None and options.dedup_key is None:
        raise InvalidOption("dedup", f"is {options.dedup!r} without a dedup_key: give that too.")
    made = Template(
        task=defaults.task,
        options=options,
        shares=_shares(options),
        _middle=(
            _either(options.queue, defaults.queue),
            _either(options.priority, defaults.priority),
            options.run_at,
            options.delay,
            _attempts(options, defaults),
            options.dedup_key,
            options.dedup,
            options.tenant,
        ),
        _correlation_id=options.correlation_id,
        _parent_id=options.parent_id,
        _end=(options.created_by, _metadata(options), options.expires_at, defaults.default_off),
        _alike=None,
    )
    # An id that was given may have been sent before.
    return made if options.id else replace(made, _alike=Alike.of(made.job(_ANY_ID, "{}")))


def _shares(options: Options) -> bool:
    return options.conn is None and options.dedup_key is None and options.poke is not False and options.patience is None


def _either(given: Any, default: Any) -> Any:
    return default if given is None else given


def _attempts(options: Options, defaults: Defaults) -> Any:
    """A policy of the job's own may imply how often it starts."""
    implied = None if options.retry is None else options.retry.starts
    return _either(_either(options.max_attempts, implied), defaults.max_attempts)


def _metadata(options: Options) -> str | None:
    """As JSON text. Keys of our own stand beside the user's: `tags`, `idempotency_key` and `retry`."""
    ours = {
        "tags": options.tags,
        "idempotency_key": options.idempotency_key,
        "retry": None if options.retry is None else policy_as_json(options.retry),
    }
    whole: Mapping[str, object] = {
        **(options.metadata or {}),
        **{name: value for name, value in ours.items() if value is not None},
    }
    if not whole:
        return None
    try:
        return encode(whole)
    except PayloadError as error:
        raise InvalidOption(f"metadata {error.field}".strip(), error.problem) from None

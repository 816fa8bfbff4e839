"""Enqueuing: one job or any number of them in one call."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import repeat
from typing import Final
from uuid import UUID

from wakeful.statements.arrays import array_of, text_of
from wakeful.statements.statement import Row, Statement, first_value
from wakeful.statements.written import Written, written
from wakeful.values.job import JobId, NewJob

# enqueue_batch_1 has these as its parameters, in the plural.
_COLUMNS: Final = NewJob._fields
_SAID: Final = ("fresh", "poke", "alone")
_PARAMETERS: Final = (*_COLUMNS, *_SAID)
_ID, _PAYLOAD, _CORRELATION_ID, _PARENT_ID, _METADATA = map(
    _COLUMNS.index, ("id", "payload", "correlation_id", "parent_id", "metadata")
)
_ONE_A_ROW: Final = frozenset({"id", "payload"})

# Rows are reported only where something else was done than asked: a large insert is answered with one null.
_ENQUEUE: Final = """
select pg_catalog.json_agg(pg_catalog.json_build_array(e.place, e.id, e.action))::text
from wakeful.enqueue_batch_1(
    %(id)s::text::uuid[], %(task)s::text::text[], %(payload)s::text::text[], %(queue)s::text::text[],
    %(priority)s::text::integer[], %(run_at)s::text::timestamptz[], %(delay)s::text::interval[],
    %(max_attempts)s::text::integer[], %(dedup_key)s::text::text[], %(dedup)s::text::text[],
    %(tenant)s::text::text[], %(correlation_id)s::text::uuid[], %(parent_id)s::text::uuid[],
    %(created_by)s::text::text[], %(metadata)s::text::text[], %(expires_at)s::text::timestamptz[],
    %(default_off)s::text::boolean[], %(fresh)s::boolean, %(poke)s::boolean, %(alone)s::boolean) e
"""

_ENQUEUE_ONE: Final = """
select wakeful.enqueue_one_1(
    %(id)s::text::uuid, %(task)s::text, %(payload)s::text::jsonb, %(queue)s::text, %(priority)s::text::integer,
    %(run_at)s::text::timestamptz, %(delay)s::text::interval, %(max_attempts)s::text::integer, %(dedup_key)s::text,
    %(dedup)s::text, %(tenant)s::text, %(correlation_id)s::text::uuid, %(parent_id)s::text::uuid,
    %(created_by)s::text, %(metadata)s::text::jsonb, %(expires_at)s::text::timestamptz,
    %(default_off)s::text::boolean, %(fresh)s::boolean, %(poke)s::boolean,
    %(alone)s::boolean)::text
"""


def enqueue(
    jobs: Sequence[NewJob], *, fresh: bool = False, poke: bool = True, alone: bool = False
) -> Statement[list[JobId | None]]:
    """Enqueue all of them or none. The answer has an id for each, None where enqueuing of its task is off.

    `fresh` promises that the ids were made a moment ago and never sent before, which spares a look into
    history; without it a job that was enqueued already, even one that is over, is not made again. `alone`
    promises that the transaction ends with this, so that who has to be poked need not be looked up at its end; and
    that what comes back as `ahead` is followed by `reach_disk` before anybody takes it for enqueued.
    """
    said = dict(zip(_SAID, (fresh, poke, alone), strict=True))
    if len(jobs) == 1:
        return _enqueue_one(jobs[0], said)
    params: dict[str, object] = {**said}
    for name, values in zip(_COLUMNS, _transposed(jobs), strict=True):
        params[name] = array_of(values) if name in _ONE_A_ROW else _array_or_one(values)

    def decode(rows: Sequence[Row]) -> list[JobId | None]:
        done: list[JobId | None] = [JobId(job.id, "inserted") for job in jobs]
        for place, id, action in json.loads(rows[0][0] or "[]"):
            done[place - 1] = JobId(UUID(id), action) if id else None
        return done

    return Statement(_ENQUEUE, params, decode)


def reach_disk(ids: Sequence[UUID]) -> Statement[bool]:
    """Whether these jobs are there, answered when they are on disk."""
    return Statement("select wakeful.reach_disk_1(%(ids)s::uuid[])", {"ids": list(ids)}, first_value)


class Alike:
    """Enqueues one of many jobs that are alike: what they have in common is written once.

    As `enqueue` of one job that is fresh and alone, whose workers are poked; but before a driver has it, most of the
    time that this takes is gone.
    """

    __slots__ = ("_texts",)

    def __init__(self, texts: Sequence[bytes | None]) -> None:
        self._texts = texts

    @classmethod
    def of(cls, job: NewJob) -> Alike | None:
        """Of those that differ from this one in id, payload and origin only; None where a cursor has to write them."""
        texts = written((*job, *(True for _ in _SAID)))
        return None if texts is None else cls(texts)

    def carrying(self, metadata: str) -> Alike:
        """The same, with this metadata."""
        texts = [*self._texts]
        texts[_METADATA] = metadata.encode()
        return Alike(texts)

    def enqueue(
        self, id: UUID, payload: str, correlation_id: UUID | None, parent_id: UUID | None
    ) -> Statement[list[JobId | None]]:
        """One of them. The payload is JSON, in which no zero byte can stand."""
        texts = [*self._texts]
        texts[_ID] = b"%032x" % id.int
        texts[_PAYLOAD] = payload.encode()
        texts[_CORRELATION_ID] = None if correlation_id is None else correlation_id.hex.encode()
        texts[_PARENT_ID] = None if parent_id is None else parent_id.hex.encode()
        return Statement(_ENQUEUE_ONE, Written(_PARAMETERS, texts), partial(_done, id))


def _enqueue_one(job: NewJob, said: Mapping[str, bool]) -> Statement[list[JobId | None]]:
    params: dict[str, object] = {**dict(zip(_COLUMNS, map(text_of, job), strict=True)), **said}
    return Statement(_ENQUEUE_ONE, params, partial(_done, job.id))


def _done(asked: UUID, rows: Sequence[Row]) -> list[JobId | None]:
    if rows[0][0] is None:
        return [JobId(asked, "inserted")]
    id, action = json.loads(rows[0][0])
    return [JobId(UUID(id), action) if id else None]


def _transposed(jobs: Sequence[NewJob]) -> Iterable[tuple[object, ...]]:
    return zip(*jobs, strict=True) if jobs else repeat((), len(_COLUMNS))


def _array_or_one(values: tuple[object, ...]) -> str | None:
    """One element stands for all rows where they are the same, no array at all for the default."""
    if not values or values.count(values[0]) < len(values):
        return array_of(values)
    return None if values[0] is None else array_of(values[:1])

"""A task: a function, what is said about it, and the verbs that enqueue calls of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property, update_wrapper
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Self, TypeVar, Unpack

from wakeful.payload import PayloadCodec, encode, encode_many
from wakeful.produce.options import NO_OPTIONS, EnqueueOptions, Options
from wakeful.produce.template import Defaults, Template, template
from wakeful.task.spec import TaskSpec
from wakeful.values.errors import InvalidOption

if TYPE_CHECKING:
    from wakeful.produce.producer import Producer
    from wakeful.run.context import BaseContext
    from wakeful.values.job import JobId

P = ParamSpec("P")
R = TypeVar("R", covariant=True)


class Task(Generic[P, R]):
    """A registered function. Calling it runs it in place; `enqueue` and `aenqueue` make a job of the call."""

    __name__: str
    __qualname__: str

    def __init__(
        self,
        function: Callable[..., R],
        spec: TaskSpec,
        codec: PayloadCodec,
        producer: Callable[[], Producer],
        options: Options = NO_OPTIONS,
    ) -> None:
        update_wrapper(self, function)
        self.function = function
        self.spec = spec
        self.codec = codec
        self.options = options
        self._producer = producer

    @property
    def name(self) -> str:
        """Under which jobs are stored and workers find the function."""
        return self.spec.name

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the function here and now; nothing is enqueued."""
        return self.function(*args, **kwargs)

    def using(self, conn: Any = None, **options: Unpack[EnqueueOptions]) -> Self:
        """The same task with options for its next jobs.

        `conn` is a connection whose transaction the jobs join: of psycopg, asyncpg, SQLAlchemy (or its
        session) or Django.
        """
        given = self.options.updated(conn, options)
        return type(self)(self.function, self.spec, self.codec, self._producer, given)

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> JobId | None:
        """Make a job of this call; None where enqueuing of the task is off.

        Blocks until the job is committed, or, with `conn`, until it is part of that transaction. Arguments
        that cannot be stored are a PayloadError before anything is sent.
        """
        producer = self._producer()
        return producer.enqueue(self.template, self._text(args, kwargs, producer.payload_limit))

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> JobId | None:
        """As `enqueue`, awaited. Cancelled before the job was sent it makes none; after that it may have."""
        producer = self._producer()
        return await producer.aenqueue(self.template, self._text(args, kwargs, producer.payload_limit))

    def enqueue_many(self, calls: Iterable[Mapping[str, Any]]) -> list[JobId | None]:
        """Make a job of each mapping of keyword arguments, all or none; their ids are in the same order."""
        producer = self._producer()
        return producer.enqueue_many(self.template, self._texts(calls, producer.payload_limit))

    async def aenqueue_many(self, calls: Iterable[Mapping[str, Any]]) -> list[JobId | None]:
        """As `enqueue_many`, awaited."""
        producer = self._producer()
        return await producer.aenqueue_many(self.template, self._texts(calls, producer.payload_limit))

    def run_payload(self, payload: str) -> R:
        """Call the function with a stored payload, as a worker does."""
        return self.function(**self.codec.decode(payload))

    def __repr__(self) -> str:
        return f"<Task {self.spec.name}>"

    @cached_property
    def template(self) -> Template:
        """What all jobs of this task, with its options, have in common."""
        spec = self.spec
        off = None if spec.enabled else True
        attempts = spec.max_attempts if spec.own_attempts else self._producer().max_attempts
        return template(Defaults(spec.name, spec.queue, spec.priority, attempts, off), self.options)

    def text_of(self, arguments: Mapping[str, Any], limit_bytes: int) -> str:
        """The payload of a call with these keyword arguments."""
        if self.spec.batch is not None:
            return encode(arguments, limit_bytes=limit_bytes)
        return self.codec.encode(self.codec.bind_mapping(arguments), limit_bytes=limit_bytes)

    def _text(self, args: tuple[Any, ...], kwargs: dict[str, Any], limit_bytes: int) -> str:
        if not args:
            return self.text_of(kwargs, limit_bytes)
        return self.codec.encode(self.codec.bind(*args, **kwargs), limit_bytes=limit_bytes)

    def _texts(self, calls: Iterable[Mapping[str, Any]], limit_bytes: int) -> list[str]:
        if not isinstance(calls, Iterable):
            raise InvalidOption("calls", f"is of type {type(calls).__name__}: give a list of mappings, one a job.")
        if self.spec.batch is not None:
            return [encode(call, limit_bytes=limit_bytes) for call in calls]
        return encode_many(self.codec, calls, limit_bytes=limit_bytes)


class ContextTask(Task[P, R]):
    """A task whose function takes the running job's context first. Its other parameters make the payload."""

    def __call__(self, context: BaseContext, /, *args: P.args, **kwargs: P.kwargs) -> R:  # type: ignore[override]
        """Run the function here and now, with a context of the caller's making."""
        return self.function(context, *args, **kwargs)

"""From a function to a task: its name, its payload, its options."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Final,
    ParamSpec,
    Protocol,
    TypeVar,
    Union,
    get_args,
    get_origin,
    overload,
)

from wakeful.payload import PayloadCodec
from wakeful.task.spec import TaskOptions, is_generator, task_spec
from wakeful.task.task import ContextTask, Task
from wakeful.values.errors import InvalidOption
from wakeful.values.names import task_name
from wakeful.values.wording import shown

if TYPE_CHECKING:
    from wakeful.produce.producer import Producer
    from wakeful.run.context import BaseContext, Context, SyncContext

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound="BaseContext", contravariant=True)

_CONTEXT_NAMES: Final = frozenset({"Context", "SyncContext"})


class TaskDecorator(Protocol):
    """What `@app.task(…)` gives. A context as the first parameter is no part of what is enqueued."""

    @overload
    def __call__(self, function: Callable[Concatenate[Context, P], R], /) -> ContextTask[P, R]: ...

    @overload
    def __call__(self, function: Callable[Concatenate[SyncContext, P], R], /) -> ContextTask[P, R]: ...

    @overload
    def __call__(self, function: Callable[P, R], /) -> Task[P, R]: ...


def declare(function: Callable[..., R], producer: Callable[[], Producer], options: TaskOptions) -> Task[..., R]:
    """Make a task of the function. Annotations are evaluated later: they may name what comes further down."""
    if isinstance(function, Task | type) or not callable(function):
        raise InvalidOption("function", f"is {shown(function)}: decorate a function.")
    if is_generator(function):
        raise InvalidOption("function", f"is {shown(function)}, a generator, which would never run: return, not yield.")
    name = task_name(options.get("name") or default_name(function), "name")
    codec = PayloadCodec.of(function, is_context=is_context)
    spec = task_spec(name, function, codec, options)
    kind = Task if codec.context is None else ContextTask
    return kind(function, spec, codec, producer)


def default_name(function: Callable[..., object]) -> str:
    """`module.function`, the same whether its module is imported or run."""
    module = getattr(function, "__module__", None) or "task"
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    if module == "__main__":
        module = _main_module()
    return f"{module}.{name}".replace("<locals>.", "").replace("<lambda>", "lambda")


def _main_module() -> str:
    main: Any = sys.modules.get("__main__")
    if (spec := getattr(main, "__spec__", None)) is not None:
        return str(spec.name).removesuffix(".__main__")
    path = getattr(main, "__file__", None)
    return Path(path).stem if path else "__main__"


def is_context(annotation: object) -> bool:
    """Whether a parameter annotated so is filled in by the worker."""
    if isinstance(annotation, str):
        # Imported for the type checker only.
        return annotation.partition("|")[0].strip(" '\"").rpartition(".")[2] in _CONTEXT_NAMES
    if get_origin(annotation) in (Union, types.UnionType):
        return any(is_context(part) for part in get_args(annotation))
    from wakeful.run.context import BaseContext

    return isinstance(annotation, type) and issubclass(annotation, BaseContext)

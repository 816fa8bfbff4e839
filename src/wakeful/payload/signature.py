"""What a handler takes: its parameters by name, with their annotations, without the context."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, get_type_hints

from wakeful.values.errors import PayloadError

IsContext = Callable[[object], bool]

_EMPTY = inspect.Parameter.empty
_UNRESOLVED = (NameError, TypeError, AttributeError, SyntaxError)


@dataclass(frozen=True, slots=True)
class Signature:
    """The parameters that a payload fills, by name, with annotations as they were written.

    `positional` are those that may be given by position; `extra` is the annotation of `**kwargs`, None
    without one.
    """

    name: str
    annotations: Mapping[str, object]
    required: frozenset[str]
    positional: tuple[str, ...]
    takes_extra: bool
    extra: object
    context: str | None
    scope: Mapping[str, Any]
    namespace: Mapping[str, Any]

    def resolved(self, parameter: str, annotation: object) -> object:
        """The annotation as a type; one that means nothing at run time is told with its parameter."""
        try:
            return resolve(annotation, self.scope, self.namespace)
        except _UNRESOLVED as error:
            raise PayloadError(
                parameter,
                f"of {self.name} is annotated {annotation!r}, which is no type at run time ({error}): "
                "import it at module level, not under TYPE_CHECKING.",
            ) from None


def read_signature(
    function: Callable[..., object], is_context: IsContext, namespace: Mapping[str, Any] | None = None
) -> Signature:
    """Reads the signature; annotations are evaluated later: they may name what is defined further down."""
    target = _innermost(function)
    scope: Mapping[str, Any] = getattr(target, "__globals__", {})
    local = namespace or {}
    name = getattr(target, "__qualname__", repr(function))
    parameters = list(inspect.signature(function).parameters.values())
    context = next((p.name for p in parameters if _is_context(p.annotation, is_context, scope, local)), None)
    filled = [_checked(p, name) for p in parameters if p.name != context]
    named = [p for p in filled if p.kind is not p.VAR_KEYWORD]
    extra = next((p for p in filled if p.kind is p.VAR_KEYWORD), None)
    return Signature(
        name=name,
        annotations={p.name: _written(p) for p in named},
        required=frozenset(p.name for p in named if p.default is _EMPTY),
        positional=tuple(p.name for p in named if p.kind is p.POSITIONAL_OR_KEYWORD),
        takes_extra=extra is not None,
        extra=Any if extra is None else _written(extra),
        context=context,
        scope=scope,
        namespace=local,
    )


def resolve(annotation: object, scope: Mapping[str, Any], namespace: Mapping[str, Any]) -> object:
    """The type that a written annotation stands for; NameError where it names nothing."""

    def carrier() -> None: ...

    carrier.__annotations__ = {"it": annotation}
    return get_type_hints(carrier, dict(scope), dict(namespace), include_extras=True)["it"]


def _innermost(function: Callable[..., object]) -> object:
    target: object = function
    while isinstance(target, functools.partial):
        target = target.func
    target = inspect.unwrap(target) if callable(target) else target
    if not inspect.isroutine(target):
        target = type(target).__call__  # An object that is called: its class says how.
    return getattr(target, "__func__", target)


def _written(parameter: inspect.Parameter) -> object:
    return Any if parameter.annotation is _EMPTY else parameter.annotation


def _is_context(
    annotation: object, is_context: IsContext, scope: Mapping[str, Any], namespace: Mapping[str, Any]
) -> bool:
    if annotation is _EMPTY:
        return False
    try:
        return is_context(resolve(annotation, scope, namespace))
    except _UNRESOLVED:
        # Imported for the type checker only, or defined later: judged by its name.
        return is_context(annotation)


def _checked(parameter: inspect.Parameter, function: str) -> inspect.Parameter:
    if parameter.kind is parameter.VAR_POSITIONAL:
        raise PayloadError(
            f"*{parameter.name}",
            f"of {function} has no name in a payload: take a list in one parameter instead.",
        )
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise PayloadError(
            parameter.name,
            f"of {function} is positional only, but payloads go by name: remove the `/` after it.",
        )
    return parameter

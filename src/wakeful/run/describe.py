"""What is kept of an exception."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence

from wakeful.payload import sanitise, sanitise_json
from wakeful.run.redact import without
from wakeful.values.outcome import AttemptError

CODE_BYTES = 200
MESSAGE_BYTES = 4_000
TRACEBACK_BYTES = 16_000


def describe(error: BaseException, secrets: Sequence[str] = ()) -> AttemptError:
    """Code (the exception's own, else its class), message and traceback; always storable, and without the secrets."""
    name = type(error).__name__
    code = _asked(lambda: _own_code(error)) or name
    trace = _asked(lambda: "".join(traceback.format_exception(error)))
    message = _asked(lambda: str(error)) or name
    if secrets:
        # Before anything is cut: half a secret would be left.
        code, message, trace = (without(text, secrets) for text in (code, message, trace))
    return AttemptError(
        sanitise(code, CODE_BYTES),
        sanitise(message, MESSAGE_BYTES),
        sanitise_json({"type": _full_name(type(error)), "traceback": sanitise(trace, TRACEBACK_BYTES)}),
    )


def _own_code(error: BaseException) -> str:
    own = getattr(error, "code", None)
    return str(own) if isinstance(own, str | int) else ""


def _asked(tell: Callable[[], str]) -> str:
    """What an exception says of itself; nothing, where that fails too."""
    try:
        return tell()
    # It is the user's own class, which may do anything at all, and the failure has to be settled.
    except BaseException:
        return ""


def _full_name(cls: type[BaseException]) -> str:
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"

"""What is kept of an exception."""

from __future__ import annotations

import traceback
from collections.abc import Sequence

from wakeful.payload import sanitise, sanitise_json
from wakeful.run.redact import without
from wakeful.values.outcome import AttemptError

CODE_BYTES = 200
MESSAGE_BYTES = 4_000
TRACEBACK_BYTES = 16_000


def describe(error: BaseException, secrets: Sequence[str] = ()) -> AttemptError:
    """Code (the exception's own, else its class), message and traceback; always storable, and without the secrets."""
    own = getattr(error, "code", None)
    code = str(own) if isinstance(own, str | int) and str(own) else type(error).__name__
    trace = "".join(traceback.format_exception(error))
    message = str(error) or type(error).__name__
    if secrets:
        # Before anything is cut: half a secret would be left.
        code, message, trace = (without(text, secrets) for text in (code, message, trace))
    return AttemptError(
        sanitise(code, CODE_BYTES),
        sanitise(message, MESSAGE_BYTES),
        sanitise_json({"type": _full_name(type(error)), "traceback": sanitise(trace, TRACEBACK_BYTES)}),
    )


def _full_name(cls: type[BaseException]) -> str:
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"

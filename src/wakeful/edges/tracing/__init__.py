"""Traces: OpenTelemetry's, and Sentry's. Each is an observer: `app.observe(Tracing())`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wakeful.app import Wakeful

__all__ = ["observe_what_is_set_up"]


def observe_what_is_set_up(app: Wakeful) -> None:
    """Trace where the app has set up OpenTelemetry or Sentry in this process, and does not observe by itself."""
    there = {type(observer).__name__ for observer in app.observers}
    if "opentelemetry.sdk.trace" in sys.modules and "Tracing" not in there:
        from wakeful.edges.tracing.opentelemetry import Tracing

        app.observe(Tracing())
    if "sentry_sdk" in sys.modules and "Sentry" not in there:
        from wakeful.edges.tracing.sentry import Sentry, is_set_up

        if is_set_up():
            app.observe(Sentry())

"""Enqueuing as its observers see it."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from wakeful.produce.template import Template
from wakeful.values.sending import Sending

log = logging.getLogger("wakeful.produce")


@contextmanager
def sent(senders: Sequence[Sending], template: Template, count: int) -> Iterator[Template]:
    """The template with what its jobs are to carry, in the observers' contexts. Their own bugs keep nobody from it."""
    with ExitStack() as stack:
        carried: dict[str, str] = {}
        for sender in senders:
            carried |= _entered(stack, sender, template, count)
        yield template.carrying(carried) if carried else template


def _entered(stack: ExitStack, sender: Sending, template: Template, count: int) -> Mapping[str, str]:
    try:
        return stack.enter_context(sender(template.task, template.queue, count))
    # Observers may be the user's own, and may raise anything: the job is enqueued all the same.
    except Exception:
        log.exception("observer_failed: %s", sender, extra={"event": "observer_failed", "task": template.task})
        return {}

"""Users' functions and webhooks as observers: for usage of tenants, and for alerts."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import asdict

from wakeful.observe.observer import Observer
from wakeful.observe.webhook import Webhook
from wakeful.values.alert import Alert, UsageEvent
from wakeful.values.run import CompletedRuns, Run

log = logging.getLogger("wakeful.alerts")


class UsageListener(Observer):
    """Calls the function for every run of a job that has a tenant, on the worker's event loop: it must be quick."""

    def __init__(self, told: Callable[[UsageEvent], object]) -> None:
        self._told = told

    def completed(self, runs: CompletedRuns) -> None:
        """Most jobs have no tenant: nothing is made for them."""
        if any(job.tenant for job in runs.jobs):
            super().completed(runs)

    def ended(self, runs: Sequence[Run]) -> None:
        """One event a run."""
        for run in runs:
            if run.job.tenant is not None:
                job = run.job
                self._told(UsageEvent(run.job.tenant, job.task, run.seconds, run.outcome, job.id, job.attempt))


class UsageWebhook(UsageListener):
    """Posts the events, `{"usage": […]}`."""

    def __init__(self, url: str) -> None:
        self._webhook = Webhook(url, "usage")
        super().__init__(lambda event: self._webhook.post([asdict(event)]))

    def stopped(self) -> None:
        """Deliver the last ones."""
        self._webhook.close()


class AlertListener(Observer):
    """Calls the function for every alert that fires or clears."""

    everything = False

    def __init__(self, told: Callable[[Alert], object]) -> None:
        self._told = told

    def alerted(self, alert: Alert) -> None:
        """Pass it on."""
        self._told(alert)


class AlertWebhook(AlertListener):
    """Posts them, `{"alerts": […]}`."""

    def __init__(self, url: str) -> None:
        self._webhook = Webhook(url, "alerts")
        super().__init__(lambda alert: self._webhook.post([{**asdict(alert), "sentence": alert.sentence}]))

    def stopped(self) -> None:
        """Deliver the last ones."""
        self._webhook.close()


class AlertLog(Observer):
    """Logs them: `alert_fired` and `alert_cleared`."""

    everything = False

    def alerted(self, alert: Alert) -> None:
        """At ERROR when it fires."""
        event = "alert_fired" if alert.fired else "alert_cleared"
        log.log(
            logging.ERROR if alert.fired else logging.INFO,
            "%s: %s",
            event,
            alert.sentence,
            extra={"event": event, "rule": alert.rule, "subject": alert.subject, "number": alert.number},
        )

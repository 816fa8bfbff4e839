"""docs/reference/metrics.md, a Grafana dashboard and Prometheus rules, from the families that a scrape is made of."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

from docs.generators.markdown import code, table
from wakeful.observe.fleet_families import fleet_families
from wakeful.observe.measures import Measures, standing_families
from wakeful.values.family import Family
from wakeful.values.standing import Standing
from wakeful.worker.loop import COUNTED

INTRO = """
# Metrics

What `/metrics` on a worker's probe port tells. Some numbers are the process's own, the others the fleet's: these come
from the database, and are the same whichever worker is asked. No label has unbounded values: `worker_id` is the
worker's slot on its machine, not its id.

Beside this page are [a dashboard for Grafana](grafana-dashboard.json) and [rules for Prometheus](prometheus-rules.yml).
"""

# A title, an expression, and what a value is measured in.
PANELS = (
    ("Ready jobs by task", "max by (task) (wakeful_job_queue_depth)", "short"),
    ("Oldest ready job", "max by (task) (wakeful_job_oldest_ready_seconds)", "s"),
    ("Runs by status", "sum by (status) (rate(wakeful_job_completed_total[1m]))", "ops"),
    (
        "Processing time, 95 of 100",
        "histogram_quantile(0.95, sum by (le, task) (rate(wakeful_job_processing_seconds_bucket[5m])))",
        "s",
    ),
    (
        "Queue time, 95 of 100",
        "histogram_quantile(0.95, sum by (le, task) (rate(wakeful_job_queue_seconds_bucket[5m])))",
        "s",
    ),
    ("Workers alive", "max(wakeful_workers_alive)", "short"),
    ("Dead letters unseen", "max(wakeful_dead_letters)", "short"),
    ("Wake-ups by source", "sum by (source) (rate(wakeful_wakeups_total[5m]))", "ops"),
    ("Breakers", "max by (breaker) (wakeful_breaker_state)", "short"),
    ("Rescues and lost leases", "sum(rate(wakeful_job_rescued_total[5m]) + rate(wakeful_lease_lost_total[5m]))", "ops"),
    ("Dead rows by table", "max by (table) (wakeful_dead_tuples)", "short"),
    ("Oldest snapshot", "max(wakeful_oldest_snapshot_seconds)", "s"),
)

# A name, an expression, for how long it must hold, and what to tell.
RULES = (
    ("WakefulNoWorker", "max(wakeful_workers_alive) < 1", "5m", "No worker is alive."),
    ("WakefulOrphans", "max(wakeful_orphan_tasks) > 0", "10m", "Ready jobs that no worker serves."),
    ("WakefulOldJobs", "max by (task) (wakeful_job_oldest_ready_seconds) > 600", "5m", "Jobs wait for ten minutes."),
    (
        "WakefulFailing",
        'sum by (task) (rate(wakeful_job_completed_total{status!="success"}[10m]))'
        " / sum by (task) (rate(wakeful_job_completed_total[10m])) > 0.5",
        "10m",
        "More than half of a task's runs fail.",
    ),
    ("WakefulDeadLetters", "max(wakeful_dead_letters) > 0", "15m", "Dead letters that nobody has seen."),
    ("WakefulBreakerOpen", "max by (breaker) (wakeful_breaker_state) == 2", "1m", "A breaker is open."),
    ("WakefulStuck", "max(wakeful_stuck_jobs) > 0", "10m", "Jobs run for more than an hour."),
    ("WakefulDeaf", "min(wakeful_listener_hears) < 1", "10m", "A worker hears no notifications, and polls."),
    (
        "WakefulSnapshot",
        "max(wakeful_oldest_snapshot_seconds) > 900",
        "5m",
        "A transaction pins vacuum.",
    ),
    ("WakefulNotifyQueue", "max(wakeful_notify_queue_usage) > 0.1", "5m", "The NOTIFY queue fills up."),
)


def own_families() -> list[Family]:
    """Those of a process."""
    counts = dict.fromkeys((*COUNTED, "refused", "unstorable"), 0)
    standing = Standing(UUID(int=0), 0.0, 20.0, False, True, True, 10, 0, counts)
    return [*Measures().families(), *standing_families(standing)]


def shared_families() -> list[Family]:
    """Those of the fleet."""
    health = {"workers_alive": 0, "dead_unacknowledged": 0, "stuck": (), "orphans": ()}
    vitals: dict[str, Any] = {"tables": {}, "oldest_snapshot": None, "notify_queue": 0.0}
    read = Family("wakeful_fleet_read", "gauge", "1 where the database told the fleet's numbers.")
    return [*fleet_families([], health, vitals), read]


def page() -> str:
    """The page."""
    rows = [
        (code(family.name), family.kind, ", ".join(map(code, family.labels)), whose, family.help)
        for whose, families in (("process", own_families()), ("fleet", shared_families()))
        for family in families
    ]
    return f"{INTRO.strip()}\n\n{table(('name', 'kind', 'labels', 'of the', 'meaning'), rows)}\n"


def dashboard() -> str:
    """For Grafana's import."""
    panels = [_panel(index, *panel) for index, panel in enumerate(PANELS)]
    return json.dumps(
        {
            "title": "wakeful",
            "uid": "wakeful",
            "schemaVersion": 39,
            "refresh": "10s",
            "time": {"from": "now-1h", "to": "now"},
            "templating": {"list": [{"name": "source", "type": "datasource", "query": "prometheus"}]},
            "panels": panels,
        },
        indent=2,
    )


def _panel(index: int, title: str, expression: str, unit: str) -> dict[str, Any]:
    source = {"type": "prometheus", "uid": "${source}"}
    return {
        "id": index + 1,
        "type": "timeseries",
        "title": title,
        "datasource": source,
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
        "gridPos": {"x": index % 3 * 8, "y": index // 3 * 8, "w": 8, "h": 8},
        "targets": [{"refId": "A", "expr": expression, "datasource": source}],
    }


def rules() -> str:
    """For Prometheus's rule_files."""
    lines = ["groups:", "  - name: wakeful", "    rules:"]
    for name, expression, holds, told in RULES:
        lines += [
            f"      - alert: {name}",
            f"        expr: {json.dumps(expression)}",
            f"        for: {holds}",
            "        annotations:",
            f"          summary: {json.dumps(told)}",
        ]
    return "\n".join(lines)

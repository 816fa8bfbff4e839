"""The server's own limit for jobs that are taken and finished one at a time."""

from __future__ import annotations

import re
import subprocess

from benchmarks.bench import Bench, Failed
from benchmarks.measurement import Figure, Measurement, Values
from benchmarks.ours.crowd import add_ready
from benchmarks.system import System

JOBS_A_SECOND_AT_MOST = 20_000
CLIENTS = 8

_SCRIPT = """\
update wakeful.job set state = 2, attempt = attempt + 1, epoch = epoch + 1, worker_id = '{worker}', started_at = now()
where id = (select id from wakeful.job where queue = 'default' and task = 'noop' and state = 1 and limit_key is null
order by rank, coalesce(turn, ready_at), id limit 1 for update skip locked) returning id \\gset
delete from wakeful.job where id = :id;
"""


def pgbench(bench: Bench, system: System) -> Values:
    """pgbench, 8 clients: claim one job and delete it, two commits a job, with no client library and no handler."""
    seconds = bench.sizes.pgbench_seconds
    with bench.site(system) as site:
        with site.connect() as conn:
            add_ready(conn, int(seconds * JOBS_A_SECOND_AT_MOST))
        site.settle()
        script = bench.folder / "pgbench.sql"
        script.write_text(_SCRIPT.format(worker="00000000-0000-7000-8000-000000000001"), "utf-8")
        options = ["-n", "-M", "prepared", "-c", str(CLIENTS), "-j", "2", "-T", str(max(1, round(seconds)))]
        done = subprocess.run(
            [bench.server.programs / "pgbench", *options, "-f", script, site.dsn],
            capture_output=True,
            text=True,
        )
    found = re.search(r"^tps = ([\d.]+)", done.stdout, re.MULTILINE)
    if not found:
        raise Failed(f"pgbench said: {done.stderr.strip()[-200:]}")
    return {"jobs_per_second": float(found[1])}


PGBENCH = Measurement(
    "pgbench",
    "Claim and delete one by one, pgbench",
    (Figure("jobs_per_second", "rate", "jobs/s", "higher"),),
    pgbench,
    lambda system: system.name == "functions",
    repeated=False,
)

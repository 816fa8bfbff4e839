"""The refresh worker: `python -m examples.implicate.refresh --mode once --job-limit 50`, or `--mode forever`."""

from __future__ import annotations

import argparse
import logging
import time
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from examples.implicate.builder import SCHEMA, ImplicateBuilder
from examples.implicate.ingest import MAX_RETRIES, TASK
from wakeful import Fixed, SyncContext, Wakeful

SUB_BATCH: Final = 50
NOTHING: Final = {"processed": 0, "upserted": 0}

log = logging.getLogger("implicate")


@dataclass
class RefreshMetrics:
    """What one attempt at a job was asked for and has done. A job's result has those of all its attempts."""

    job_id: str
    entity_ids_requested: int = 0
    entity_ids_found: int = 0
    entity_ids_processed: int = 0
    entity_ids_upserted: int = 0
    duration_seconds: float = 0.0
    errors: list[str] = field(default_factory=list)
    success: bool = False


class ImplicateRefreshWorker:
    """Runs refresh jobs of an app, and remembers what they did in this process."""

    def __init__(self, app: Wakeful, builder: ImplicateBuilder | None = None, *, enabled: bool = False) -> None:
        self._app = app
        self._builder = builder or ImplicateBuilder(app)
        self.metrics: list[RefreshMetrics] = []

        @app.task(name=TASK, max_retries=MAX_RETRIES, retry=Fixed(0), timeout="10m", enabled=enabled)
        def implicate_refresh(ctx: SyncContext, entity_ids: list[str]) -> dict[str, Any]:
            before = ctx.saved or NOTHING
            return in_all(before, asdict(self.process_job(ctx, entity_ids)))

        self.task = implicate_refresh

    def process_job(self, ctx: SyncContext, entity_ids: list[str]) -> RefreshMetrics:
        """Refresh each of the ids once, fifty at a time. A later attempt goes on where this one fails."""
        began, before = time.monotonic(), (ctx.saved or NOTHING)["processed"]
        ids = list(dict.fromkeys(entity_ids))[before:]
        metrics = RefreshMetrics(str(ctx.job.id), len(ids))
        self.metrics.append(metrics)
        log.info("Job %s: %d entity ids, after %d that were done before", ctx.job.id, len(ids), before)
        try:
            while metrics.entity_ids_processed < len(ids) and not ctx.cancelled:
                self._build(ctx, metrics, ids[metrics.entity_ids_processed :][:SUB_BATCH])
            metrics.success = metrics.entity_ids_processed == len(ids)
        except ConnectionError as error:
            metrics.errors.append(str(error))
            log.error("Job %s: %s", ctx.job.id, error)
            raise
        finally:
            metrics.duration_seconds = time.monotonic() - began
        return metrics

    def _build(self, ctx: SyncContext, metrics: RefreshMetrics, batch: list[str]) -> None:
        built, before = self._builder.build_incremental(batch), ctx.saved or NOTHING
        metrics.entity_ids_processed += built.processed
        metrics.entity_ids_upserted += built.upserted
        metrics.entity_ids_found += built.upserted
        processed, upserted = metrics.entity_ids_processed, metrics.entity_ids_upserted
        ctx.save({"processed": before["processed"] + processed, "upserted": before["upserted"] + upserted})
        ctx.count("upserted", built.upserted)
        if built.error is not None:
            raise built.error

    def run_once(self, job_limit: int = 10) -> dict[str, int]:
        """Process what is pending, `job_limit` jobs at most; what fails does not stop the others."""
        first = len(self.metrics)
        summary = self._app.worker(concurrency=1).run_once(limit=job_limit)
        done = self.metrics[first:]
        upserted = sum(one.entity_ids_upserted for one in done)
        log.info("Batch complete: %d jobs, %d upserted", summary.processed, upserted)
        return {
            "jobs_processed": summary.processed,
            "jobs_succeeded": summary.succeeded,
            "jobs_failed": summary.failed,
            "entities_processed": sum(one.entity_ids_processed for one in done),
            "entities_upserted": upserted,
        }

    def run_forever(self, poll_interval: float = 10) -> None:
        """Work until told to stop. It sleeps until there is a job; the poll is only what stands behind that."""
        self._app.worker(concurrency=1, poll_interval=poll_interval).run()

    def get_metrics_summary(self) -> dict[str, float]:
        """What all attempts in this process have in sum."""
        total, good = len(self.metrics), sum(one.success for one in self.metrics)
        return {
            "total_jobs": total,
            "successful_jobs": good,
            "failed_jobs": total - good,
            "success_rate": good / total if total else 0.0,
            "total_entities_requested": sum(one.entity_ids_requested for one in self.metrics),
            "total_entities_processed": sum(one.entity_ids_processed for one in self.metrics),
            "total_entities_upserted": sum(one.entity_ids_upserted for one in self.metrics),
            "total_errors": sum(len(one.errors) for one in self.metrics),
            "average_duration": sum(one.duration_seconds for one in self.metrics) / total if total else 0.0,
        }


def in_all(before: dict[str, int], last: dict[str, Any]) -> dict[str, Any]:
    """What the attempts at a job have done together: those before, and the last."""
    counts = {
        "entity_ids_requested": before["processed"],
        "entity_ids_found": before["upserted"],
        "entity_ids_processed": before["processed"],
        "entity_ids_upserted": before["upserted"],
    }
    return {**last, **{name: last[name] + count for name, count in counts.items()}}


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="Refresh vectors of entities.")
    parser.add_argument("--mode", choices=("once", "forever"), default="once")
    parser.add_argument("--job-limit", type=int, default=10)
    parser.add_argument("--poll-interval", type=float, default=10)
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s - %(levelname)s - %(message)s")
    with Wakeful() as app:
        with app.database.connection() as conn:
            conn.execute(SCHEMA)
        worker = ImplicateRefreshWorker(app)
        if given.mode == "once":
            print(worker.run_once(given.job_limit))
        else:
            worker.run_forever(given.poll_interval)


if __name__ == "__main__":
    main()

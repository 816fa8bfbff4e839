"""`python -m examples.implicate`: an analysis of 500 entities, a service that fails once, and how it goes on."""

from __future__ import annotations

from examples.implicate.builder import SCHEMA, ImplicateBuilder
from examples.implicate.ingest import commit_analysis
from examples.implicate.refresh import ImplicateRefreshWorker
from wakeful import Wakeful


class FailingOnce(ImplicateBuilder):
    """An embedding service that is away for a moment, at one entity."""

    def __init__(self, app: Wakeful, at: str) -> None:
        super().__init__(app)
        self._at: str | None = at

    def embed(self, id: str, text: str) -> list[float]:
        """Fails the first time it is asked for that entity."""
        if id == self._at:
            self._at = None
            raise ConnectionError("the embedding service does not answer")
        return super().embed(id, text)


def main() -> None:
    """Ingest, refresh, fail, go on."""
    with Wakeful() as app:
        with app.database.connection() as conn:
            conn.execute(SCHEMA)
        worker = ImplicateRefreshWorker(app, FailingOnce(app, "entity-320"), enabled=True)
        entities = {f"entity-{number}": f"text {number}" for number in range(500)}
        print("jobs enqueued:", commit_analysis(app, entities).jobs_enqueued)
        for attempt in (1, 2):
            print(f"run {attempt}:", worker.run_once(job_limit=1))
        print("summary:", worker.get_metrics_summary())
        print("queue:", app.queue.get_stats("implicate_refresh"))


if __name__ == "__main__":
    main()

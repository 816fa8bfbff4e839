"""Traces and metrics by OpenTelemetry, and Sentry: spans on both sides, joined by what the job carries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import sentry_sdk
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from tests.sessions import Session, query
from wakeful.app import Wakeful
from wakeful.edges.tracing.metrics import OpenTelemetryMetrics
from wakeful.edges.tracing.opentelemetry import Tracing
from wakeful.edges.tracing.sentry import Sentry
from wakeful.run.context import Context
from wakeful.values.family import Family
from wakeful.values.retry import Fixed


@pytest.fixture
def spans(app: Wakeful) -> InMemorySpanExporter:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    app.observe(Tracing(provider.get_tracer("test")))
    return exporter


def by_name(exporter: InMemorySpanExporter) -> dict[str, list[ReadableSpan]]:
    found: dict[str, list[ReadableSpan]] = {}
    for span in exporter.get_finished_spans():
        found.setdefault(span.name, []).append(span)
    return found


def ids(span: ReadableSpan) -> tuple[int, int]:
    assert span.context is not None
    return span.context.trace_id, span.context.span_id


async def test_a_job_that_runs_at_once_is_in_the_trace_of_its_sender(app: Wakeful, spans: InMemorySpanExporter) -> None:
    seen: list[int] = []

    @app.task(name="shop.pay", queue="money")
    async def pay(ctx: Context, n: int) -> None:
        seen.append(trace.get_current_span().get_span_context().trace_id)
        if n:
            await pay.aenqueue(n - 1)

    await pay.aenqueue(1)
    for _ in range(2):
        await app.worker().arun_once()
    found = by_name(spans)
    assert found.keys() == {"send money", "process money"}
    assert len({ids(span)[0] for span in spans.get_finished_spans()}) == 1
    assert seen == [ids(found["send money"][0])[0]] * 2
    first = found["send money"][0]
    assert (first.kind, first.parent) == (SpanKind.PRODUCER, None)
    processed = next(span for span in found["process money"] if span.parent and span.parent.span_id == ids(first)[1])
    assert processed.kind is SpanKind.CONSUMER
    assert processed.attributes is not None
    assert {name: processed.attributes[name] for name in ("messaging.system", "messaging.operation.type")} == {
        "messaging.system": "wakeful",
        "messaging.operation.type": "process",
    }
    assert (processed.attributes["messaging.destination.name"], processed.attributes["wakeful.task"]) == (
        "money",
        "shop.pay",
    )
    assert processed.attributes["messaging.message.id"]


async def test_a_job_that_waited_begins_a_trace_of_its_own_with_a_link(
    app: Wakeful, db: Session, spans: InMemorySpanExporter
) -> None:
    @app.task(name="later")
    async def later() -> None: ...

    await later.using(metadata={"mine": 1}).aenqueue()
    db.execute("update wakeful.job set created_at = created_at - interval '1 hour'")
    assert query(db, "select metadata ->> 'mine' as mine, metadata ? 'traceparent' as carries from wakeful.job") == [
        {"mine": "1", "carries": True}
    ]
    await app.worker().arun_once()
    found = by_name(spans)
    [sent], [processed] = found["send default"], found["process default"]
    assert ids(sent)[0] != ids(processed)[0]
    assert [(link.context.trace_id, link.context.span_id) for link in processed.links] == [ids(sent)]


async def test_a_failure_is_on_its_span(app: Wakeful, spans: InMemorySpanExporter) -> None:
    @app.task(name="bad", retry=Fixed(60))
    async def bad() -> None:
        raise LookupError("gone")

    await bad.aenqueue()
    await app.worker().arun_once()
    [processed] = by_name(spans)["process default"]
    assert processed.status.status_code is StatusCode.ERROR
    assert processed.attributes is not None
    assert processed.attributes["error.type"] == "LookupError"
    assert [event.name for event in processed.events] == ["exception"]


async def test_a_batch_is_one_span_with_a_link_for_each_job(app: Wakeful, spans: InMemorySpanExporter) -> None:
    @app.task(name="many", batch=3)
    async def many(items: list[dict[str, int]]) -> None: ...

    for n in range(3):
        await app.aenqueue("many", {"n": n})
    await app.worker().arun_once()
    [processed] = by_name(spans)["process default"]
    assert len(processed.links) == 3
    assert processed.attributes is not None
    assert processed.attributes["messaging.batch.message_count"] == 3


async def test_numbers_go_through_the_metrics_api_too(app: Wakeful) -> None:
    reader = InMemoryMetricReader()
    provider = MeterProvider(metric_readers=[reader])
    gauge = Family("wakeful_job_queue_depth", "gauge", "Ready.", ("task",), {("t",): 7.0})
    app.observe(OpenTelemetryMetrics(provider.get_meter("test"), lambda: [gauge]))

    @app.task(name="t")
    async def t() -> None: ...

    for _ in range(2):
        await t.aenqueue()
    await app.worker().arun_once()
    told = reader.get_metrics_data()
    assert told is not None
    points: dict[str, Any] = {
        metric.name: next(iter(metric.data.data_points))
        for resource in told.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }
    assert points["wakeful_job_claimed"].value == 2
    assert dict(points["wakeful_job_completed"].attributes) == {"task": "t", "status": "success"}
    assert points["wakeful_job_processing_seconds"].count == 2
    assert points["wakeful_job_queue_depth"].value == 7
    provider.shutdown()


@pytest.fixture
def sentry() -> Iterator[list[Any]]:
    sent: list[Any] = []

    class Kept(sentry_sdk.transport.Transport):
        def capture_envelope(self, envelope: Any) -> None:
            sent.extend(item.payload.json for item in envelope.items)

    sentry_sdk.init(
        dsn="http://key@127.0.0.1:9/1",
        transport=Kept,
        traces_sample_rate=1.0,
        default_integrations=False,
        auto_enabling_integrations=False,
    )
    yield sent
    sentry_sdk.get_client().close()
    sentry_sdk.init()


async def test_sentry_gets_what_a_handler_raises_and_a_transaction_for_each_run(
    app: Wakeful, sentry: list[Any]
) -> None:
    app.observe(Sentry())

    @app.task(name="shop.bad", retry=Fixed(60))
    async def bad() -> None:
        raise LookupError("gone")

    with sentry_sdk.start_transaction(op="test", name="outer") as outer:
        id = await bad.aenqueue()
    await app.worker().arun_once()
    sentry_sdk.flush()
    errors = [one for one in sentry if one.get("exception")]
    [run] = [one for one in sentry if one.get("type") == "transaction" and one["transaction"] == "shop.bad"]
    assert [one["exception"]["values"][0]["type"] for one in errors] == ["LookupError"]
    assert errors[0]["tags"]["wakeful.job_id"] == str(id)
    assert run["contexts"]["trace"]["op"] == "queue.process"
    assert run["contexts"]["trace"]["trace_id"] == outer.trace_id

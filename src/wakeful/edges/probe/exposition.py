"""Families as prometheus_client writes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from wakeful.values.family import Family, Histogram

__all__ = ["CONTENT_TYPE_LATEST", "text_of"]


class Families(Collector):
    """Hands families to a registry."""

    def __init__(self, families: Iterable[Family]) -> None:
        self._families = list(families)

    def collect(self) -> Iterator[Metric]:
        """In prometheus_client's own terms."""
        return (metric_of(family) for family in self._families)


def text_of(families: Iterable[Family]) -> bytes:
    """What a scrape is answered with."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Families(families))
    return generate_latest(registry)


def metric_of(family: Family) -> Metric:
    """One family. Counters get their `_total` from the library."""
    labels = list(family.labels)
    if family.kind == "histogram":
        histogram = HistogramMetricFamily(family.name, family.help, labels=labels)
        for values, bars in family.samples.items():
            assert isinstance(bars, Histogram)
            bounds = [*map(str, bars.bounds), "+Inf"]
            histogram.add_metric(values, list(zip(bounds, accumulate(bars.counts), strict=True)), bars.total)
        return histogram
    kind = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
    made: CounterMetricFamily | GaugeMetricFamily = kind(family.name, family.help, labels=labels)
    for values, number in family.samples.items():
        assert not isinstance(number, Histogram)
        made.add_metric(values, number)
    return made

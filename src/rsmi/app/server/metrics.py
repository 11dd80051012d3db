"""What the server counts, for Prometheus."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128)
_TENTHS = tuple(tenth / 10 for tenth in range(1, 11))
_RECENT = 1000  # decisions that the escalation rate looks back on


class Metrics:
    """Counters of one server, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = own = CollectorRegistry()
        ProcessCollector(registry=own)
        PlatformCollector(registry=own)
        self.requests = Counter("rsmi_requests", "Requests answered.", ["route", "status"], registry=own)
        self.seconds = Histogram(
            "rsmi_request_seconds", "From the first byte to the last.", ["route"], buckets=_SECONDS, registry=own
        )
        self.in_work = Gauge("rsmi_requests_in_work", "Requests accepted and not yet answered.", registry=own)
        self.ready = Gauge("rsmi_ready", "1 if the server takes requests, else 0.", registry=own)
        self.texts = Counter("rsmi_texts", "Texts decided about.", ["quality"], registry=own)
        self.escalated = Counter("rsmi_escalated", "Texts that needed step two.", ["quality"], registry=own)
        self.abstained = Counter("rsmi_abstained", "Texts without a decision.", ["quality"], registry=own)
        self.windowed = Counter("rsmi_windowed", "Texts longer than the model reads at once.", registry=own)
        self.rate = Gauge(
            "rsmi_escalation_rate",
            f"Share of the last {_RECENT} texts of quality standard and certified that needed step two.",
            registry=own,
        )
        self.under_attack = Histogram(
            "rsmi_under_attack", "How much a text looks attacked, 0 to 1.", buckets=_TENTHS, registry=own
        )
        self.certificates = Counter("rsmi_certificates", "Certificates asked for.", ["outcome"], registry=own)
        self.attack_queries = Counter("rsmi_attack_queries", "Queries of live attacks.", registry=own)
        self._queue = Gauge("rsmi_queue_texts", "Texts waiting.", ["lane"], registry=own)
        self._refused = Counter("rsmi_queue_refused", "Requests refused for a full queue.", ["lane"], registry=own)
        self._waited = Histogram(
            "rsmi_queue_seconds", "Time a text waited for its batch.", ["lane"], buckets=_SECONDS, registry=own
        )
        self._sizes = Histogram("rsmi_batch_texts", "Texts of a batch.", ["lane"], buckets=_SIZES, registry=own)
        self._ran = Histogram("rsmi_batch_seconds", "Time a batch took.", ["lane"], buckets=_SECONDS, registry=own)
        self._recent: deque[bool] = deque(maxlen=_RECENT)

    def lane(self, name: str) -> LaneMetrics:
        """Return what a queue reports to."""
        return LaneMetrics(self, name)

    def decided(self, quality: str, escalated: bool, abstained: bool, windowed: bool, score: float) -> None:
        """Count a decision."""
        self.texts.labels(quality).inc()
        self.escalated.labels(quality).inc(escalated)
        self.abstained.labels(quality).inc(abstained)
        self.windowed.inc(windowed)
        self.under_attack.observe(score)
        if quality != "fast":  # which has no step two
            self._recent.append(escalated)
            self.rate.set(sum(self._recent) / len(self._recent))

    def page(self) -> bytes:
        """Return all of it in Prometheus' text format."""
        return generate_latest(self.registry)


class LaneMetrics:
    """How one queue is doing; see `batching.Observer`."""

    def __init__(self, metrics: Metrics, name: str) -> None:
        own = metrics
        self._queue, self._refused = own._queue.labels(name), own._refused.labels(name)
        self._waited, self._sizes, self._ran = (
            own._waited.labels(name),
            own._sizes.labels(name),
            own._ran.labels(name),
        )

    def queued(self, waiting: int) -> None:
        """So many texts wait now."""
        self._queue.set(waiting)

    def refused(self) -> None:
        """A request found the queue full."""
        self._refused.inc()

    def ran(self, waited: Sequence[float], seconds: float) -> None:
        """A batch was run."""
        for each in waited:
            self._waited.observe(each)
        self._sizes.observe(len(waited))
        self._ran.observe(seconds)

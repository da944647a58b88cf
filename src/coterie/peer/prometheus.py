"""Prometheus metrics of a peer: rounds, accuracy, traffic and refusals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from coterie.errors import ConfigError
from coterie.peer.peer_run import PeerStatus
from coterie.peer.refusals import RefusalCounts
from coterie.peer.transport.context import PeerContext

Labels = tuple[str, ...]


@contextmanager
def serve_metrics(
    port: int | None, context: PeerContext, status: Callable[[], PeerStatus]
) -> Iterator[None]:
    """Serve the metrics of a peer on this computer, if a port is given."""
    if port is None:
        yield
        return
    try:
        from prometheus_client import CollectorRegistry, start_http_server
    except ImportError:
        raise ConfigError(
            "metrics_port needs the package prometheus-client. Install it with: pip install "
            "'coterie[prometheus]', or remove the setting."
        ) from None
    registry = CollectorRegistry()
    registry.register(_Collector(context, status))
    try:
        server, thread = start_http_server(port, addr="127.0.0.1", registry=registry)
    except OSError as error:
        raise ConfigError(
            f"metrics_port = {port} cannot be used: {error.strerror}. Choose another port."
        ) from None
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Collector:
    """Reads the counters when Prometheus asks; nothing is counted twice."""

    def __init__(self, context: PeerContext, status: Callable[[], PeerStatus]) -> None:
        self._context = context
        self._status = status

    def collect(self) -> Iterator[Any]:
        """Yield all metrics."""
        status = self._status()
        yield _gauge("round", "The last finished round.", status.round)
        yield _gauge("known_peers", "Number of other peers that can be asked.", status.num_known)
        for name, value in (
            ("validation_score", status.validation_score),
            ("validation_loss", status.validation_loss),
            ("test_score", status.test_score),
        ):
            if value is not None:
                yield _gauge(name, "On this peer's own data, as last measured.", value)
        traffic = self._context.traffic
        yield self._by_peer("bytes_received", "Bytes of received models.", traffic.bytes_received)
        yield self._by_peer("bytes_sent", "Bytes of sent models.", traffic.bytes_sent)
        yield self._by_method("calls", "Calls to other peers.", traffic.calls)
        yield self._by_method("call_failures", "Failed calls to other peers.", traffic.failures)
        yield self._by_method("served", "Calls from other peers.", traffic.served)
        yield self._by_reason("refused", "Refused by this peer.", self._context.refused)
        yield self._by_reason("not_got", "Not received from other peers.", self._context.failures)

    def _by_peer(self, name: str, text: str, counts: Counter[str]) -> Any:
        rows = [
            ((self._context.address_book.name_of(peer_id),), n)
            for peer_id, n in counts.copy().items()
        ]
        return _counter(name, text, ("peer",), rows)

    def _by_method(self, name: str, text: str, counts: Counter[tuple[str, str]]) -> Any:
        names = self._context.address_book.name_of
        rows = [((names(peer_id), method), n) for (peer_id, method), n in counts.copy().items()]
        return _counter(name, text, ("peer", "method"), rows)

    def _by_reason(self, name: str, text: str, counted: RefusalCounts) -> Any:
        names = self._context.address_book.name_of
        rows = [((names(peer_id), reason.value), n) for peer_id, reason, n in counted.rows()]
        return _counter(name, text, ("peer", "reason"), rows)


def _gauge(name: str, text: str, value: float) -> Any:
    from prometheus_client.core import GaugeMetricFamily

    return GaugeMetricFamily(f"coterie_{name}", text, value=value)


def _counter(name: str, text: str, labels: Labels, rows: Iterable[tuple[Labels, int]]) -> Any:
    from prometheus_client.core import CounterMetricFamily

    family = CounterMetricFamily(f"coterie_{name}", text, labels=labels)
    totals: dict[Labels, int] = {}
    for values, count in rows:  # two peers may have the same name
        totals[values] = totals.get(values, 0) + count
    for values, count in totals.items():
        family.add_metric(list(values), count)
    return family

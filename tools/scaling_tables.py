"""The tables of docs/scaling.md, from the kept results of two benchmarks."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from docs_folder import DOCS

RESULTS = DOCS.parent / "benchmarks" / "results"
MANY_PEERS = RESULTS / "2026-11-20-many-peers-digits.json"
NODES = RESULTS / "2026-11-20-node-traffic-dac-kin-100000.json"
MILLION = 1_000_000
PLACES = {"any": "by number", "cluster": "by cluster"}


def many_peers_table() -> str:
    """Return the memory, time and bytes of a peer in networks of several sizes."""
    measured = json.loads(MANY_PEERS.read_text())["results"]
    rows = []
    for strategy in dict.fromkeys(each["strategy"] for each in measured):
        mine = [each for each in measured if each["strategy"] == strategy]
        for size in sorted({each["peers"] for each in mine}):
            found = [each for each in mine if each["peers"] == size]
            rows.append(_row_of_size(strategy, size, found, mine))
    columns = ("strategy", "peers", "memory in all", "further memory of a peer")
    return _table((*columns, "CPU time of a peer and round", "bytes of a peer and round"), rows)


def _row_of_size(
    strategy: str, size: int, found: list[dict[str, Any]], mine: list[dict[str, Any]]
) -> tuple[str, ...]:
    smallest = min(each["peers"] for each in mine)
    least = min(each["peak_memory_megabytes"] for each in mine if each["peers"] == smallest)
    memory = min(each["peak_memory_megabytes"] for each in found)
    further = f"{1e3 * (memory - least) / (size - smallest):.0f} KB" if size > smallest else "–"
    times = [time for each in found for time in each["cpu_milliseconds_per_peer_round"]]
    sent = found[0]["bytes_per_peer_round"]
    return (
        strategy,
        f"{size:,}",
        f"{memory / 1e3:.1f} GB",
        further,
        f"{sum(times) / len(times):.2f} ms",
        ", ".join(f"{each:,}" for each in sent),
    )


def nodes_table() -> str:
    """Return what the busiest of the nodes receives in each round."""
    rows = []
    for each in json.loads(NODES.read_text())["rounds"]:
        for way, name in PLACES.items():
            node = each["received_by_the_busiest_node"][way]
            rows.append(
                (
                    each["strategy"],
                    str(each["round"]),
                    name,
                    f"{100 * node['share_of_fetches_that_cross']:.1f} %",
                    f"{node['models_each']:,}",
                    f"{node['models_once']:,}",
                    f"{node['megabytes_each']:.0f} MB",
                    f"{node['megabytes_once']:.0f} MB",
                )
            )
    columns = ("strategy", "round", "peers are placed", "fetches that cross", "models")
    return _table((*columns, "different models", "bytes", "bytes of different models"), rows)


def rows_table() -> str:
    """Return the peers that a table lists after each round, measured and by the formula."""
    report = json.loads(NODES.read_text())
    rows = []
    for each in report["rounds"]:
        most = _most_listed(each["strategy"], report["fetches"], each["round"])
        listed = f"{each['listed_peers']:.1f}"
        rows.append((each["strategy"], str(each["round"]), listed, str(most)))
    return _table(("strategy", "round", "peers in a table", "at most"), rows)


def million_table() -> str:
    """Return what each node needs for its part of a million peers."""
    estimates = {strategy: _of_each_node(strategy) for strategy in ("dac", "kin")}
    rows = [(what, *(each[what] for each in estimates.values())) for what in estimates["dac"]]
    return _table(("for each node and round", *estimates), rows)


def _of_each_node(strategy: str) -> dict[str, str]:
    traffic = json.loads(NODES.read_text())
    peers = MILLION / traffic["nodes"]
    times = MILLION / traffic["peers"]
    received = [
        each["received_by_the_busiest_node"]["any"]
        for each in traffic["rounds"]
        if each["strategy"] == strategy
    ]
    each_time = max(node["megabytes_each"] for node in received) * times / 1e3
    once = max(node["megabytes_once"] for node in received) * times / 1e3
    sizes = {
        each["peers"]: each
        for each in json.loads(MANY_PEERS.read_text())["results"]
        if each["strategy"] == strategy
    }
    small, large = min(sizes), max(sizes)
    further = (sizes[large]["peak_memory_megabytes"] - sizes[small]["peak_memory_megabytes"]) / (
        large - small
    )
    milliseconds = sizes[large]["cpu_milliseconds_per_peer_round"]
    cpu = peers * sum(milliseconds) / len(milliseconds) / 1e3
    return {
        "memory of its own peers": f"{peers * further / 1e3:.1f} GB",
        "memory of the different models it receives": f"{once:.1f} GB",
        "received, each fetch by itself": f"{each_time:.1f} GB",
        "received, each model once": f"{once:.1f} GB",
        "the latter at 10 Gbit/s": f"{once * 8 / 10:.1f} s",
        "CPU time": f"{cpu:.0f} s",
    }


def _most_listed(strategy: str, fetches: int, rounds: int) -> int:
    """Return m·t + m²·t(t−1)/2 for DAC, and m(2t−1) + m²(t−1)² for Kin."""
    if strategy == "dac":
        return fetches * rounds + fetches**2 * rounds * (rounds - 1) // 2
    return fetches * (2 * rounds - 1) + fetches**2 * (rounds - 1) ** 2


def _table(columns: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    head, *body = (f"| {' | '.join(line)} |" for line in (columns, *rows))
    return "\n".join([head, "|" + "---|" * len(columns), *body])

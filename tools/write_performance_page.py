"""Writes docs/performance.md from the kept results of benchmarks, with its picture.

usage: python tools/write_performance_page.py
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure

from coterie.reports.colours import BLUE, GREY, SKY_BLUE
from coterie.reports.figures.style import PAGE, new_figure, use_style
from coterie.storage.files import write_text
from docs_folder import DOCS
from make_pictures import PICTURES, WIDTH, save_picture
from performance_page.kept import (
    COMPARED_PEERS,
    OURS,
    RESULTS,
    YARDSTICK,
    Comparison,
    read,
    read_json,
)
from performance_page.text import DIFFERENCES, METHOD, OTHERS, SHOWN, TITLE, WORK
from reproduction_page.tables import markdown
from write_readme_tables import speed_table

NETWORKS = RESULTS / "2026-11-19-compiled-networks.json"
MANY_PEERS = RESULTS / "2026-11-16-many-peers-dac.json"
SWARM = RESULTS / "2026-11-16-swarm-memory.json"
PAGE_FILE, PICTURE = DOCS / "performance.md", "performance"
NUM_COLOURS = 64
BYTES_OF_DATA = 128 * 28 * 28 * 4
"""Of a peer."""
NETWORK_TITLES = {
    "mlp-gelu-layernorm": "two hidden layers with GELU and layer normalisation",
    "embedding-classifier": "embedding, mean of 32 words, two linear layers",
    "resnet-8": "ResNet-8 with batch normalisation, 32×32 images",
    "resnet-18": "ResNet-18, 32×32 images",
}


def page(found: Comparison) -> str:
    """Return the whole page."""
    kept = found.kept
    parts = (
        TITLE.format(
            verdict=verdict(found),
            picture=f"pictures/{PICTURE}.webp",
            peers=COMPARED_PEERS,
            baseline=kept["baseline_peers"],
            data_kilobytes=round(BYTES_OF_DATA / 1000),
            compared=compared_table(found),
            sizes=sizes_table(found),
        ),
        left_out(found),
        WORK.format(
            data=f"of {kept['data']}" if kept["data"] == "MNIST" else kept["data"],
            cores=kept["cores_used"],
            differences=markdown(
                ("framework", "what is different"),
                [(SHOWN[name], DIFFERENCES[name]) for name in found.names],
                texts=("what is different",),
            ),
        ),
        METHOD.format(
            cpu=kept["cpu"],
            cores=kept["cores"],
            vectors=kept["torch_vectors"],
            spread=f"{100 * found.largest_spread():.0f} %",
            peers=COMPARED_PEERS,
            repeats=1 + max(run["repeat"] for run in kept["runs"]),
            limit=kept["limit_seconds"],
        ),
        other_results(),
    )
    return "".join(parts)


def verdict(found: Comparison) -> str:
    """Return the result in two sentences."""
    ours, loop = (found.measured(name, COMPARED_PEERS) for name in (OURS, YARDSTICK))
    rival, rate = found.fastest_rival()
    if ours is None or loop is None:
        raise ValueError(f"Coterie and the plain loop need runs with {COMPARED_PEERS} peers.")
    return (
        f"With {COMPARED_PEERS} peers, Coterie does {ours.cpu_rate / rate:.1f} times as many "
        f"peer-rounds per CPU-second as the fastest other framework, {SHOWN[rival]}. It does "
        f"{ours.cpu_rate / loop.cpu_rate:.1f} times as many as a plain loop in torch."
    )


def compared_table(found: Comparison) -> str:
    """Return all results with 100 peers."""
    ours = found.measured(OURS, COMPARED_PEERS)
    rows = []
    for name in found.names:
        mine = found.measured(name, COMPARED_PEERS)
        few = found.measured(name, found.kept["baseline_peers"])
        numbers = ["–"] * 3
        if mine and ours:
            numbers = [
                _rate(mine.cpu_rate),
                "–" if name == OURS else f"{ours.cpu_rate / mine.cpu_rate:.1f} ×",
                _rate(mine.wall_rate),
            ]
        numbers.append("–" if few is None else f"{few.peak_megabytes:,.0f}")
        numbers.append(_kilobytes(found.kilobytes_per_peer(name, COMPARED_PEERS)))
        rows.append([f"{SHOWN[name]} {found.version(name)}", *numbers])
    titles = (
        *("framework", "peer-rounds per CPU-second", "Coterie is faster by"),
        *("peer-rounds per second", f"MB with {found.kept['baseline_peers']} peers"),
        "KB per further peer",
    )
    return markdown(titles, rows)


def sizes_table(found: Comparison) -> str:
    """Return the rates with every number of peers, and the memory with the largest."""
    sizes = [found.kept["baseline_peers"], *found.sizes]
    rows = []
    for name in found.names:
        all_sizes = [found.measured(name, peers) for peers in sizes]
        rates = ["–" if each is None else _rate(each.cpu_rate) for each in all_sizes]
        rows.append([SHOWN[name], *rates, _kilobytes(found.kilobytes_per_peer(name, sizes[-1]))])
    titles = ["peer-rounds per CPU-second", *(f"{peers:,} peers" for peers in sizes)]
    return markdown((*titles, f"KB per further peer, {sizes[-1]:,} peers"), rows)


def left_out(found: Comparison) -> str:
    """Return what could not be measured, and why."""
    reasons = [
        (SHOWN[name], reason) for name in found.names if (reason := found.failure(name)) is not None
    ]
    missing = [(name, f"{why}.") for name, why in found.kept["not_installed"].items()]
    table = markdown(("not measured", "why"), [*reasons, *missing], texts=("why",))
    return f"\n{table}\n" if reasons or missing else ""


def other_results() -> str:
    """Return the sections about torch and memory."""
    many = read_json(MANY_PEERS)["results"]
    fewer, more = sorted(many, key=lambda each: int(each["peers"]))[-2:]
    growth = more["peak_memory_megabytes"] - fewer["peak_memory_megabytes"]
    swarm = read_json(SWARM)
    return OTHERS.format(
        speed=speed_table(),
        networks=networks_table(),
        many_peers=memory_table(many),
        fewer=f"{fewer['peers']:,}",
        more=f"{more['peers']:,}",
        slope=f"{growth / (more['peers'] - fewer['peers']):.1f}",
        swarm=(
            f"A real peer of `coterie swarm` has {swarm['private_megabytes']['median']:.0f} MB of "
            f"its own, measured with {swarm['peers']} peers on one computer."
        ),
    )


def networks_table() -> str:
    """Return how fast networks of other layers are trained."""
    kept = read_json(NETWORKS)
    rows = [
        (
            title,
            f"{kept[name]['parameters']:,}",
            f"{kept[name]['train_native_times_torch_fused']:.1f} × torch",
        )
        for name, title in NETWORK_TITLES.items()
    ]
    return markdown(("network", "parameters", "training"), rows)


def memory_table(results: Sequence[dict[str, Any]]) -> str:
    """Return the memory and time with many peers; the first of several runs of a size."""
    first = {each["peers"]: each for each in reversed(results)}
    rows = [
        (
            f"{peers:,}",
            f"{each['peak_memory_megabytes']:,} MB",
            f"{min(each['cpu_milliseconds_per_peer_round']):.1f}",
        )
        for peers, each in sorted(first.items())
    ]
    return markdown(("peers", "memory at most", "CPU milliseconds per peer-round"), rows)


def draw(found: Comparison) -> Figure:
    """Draw the rates of all frameworks: one panel per number of peers."""
    figure = new_figure(PAGE, 0.22 * len(found.names) + 0.75)
    panels = figure.subplots(1, len(found.sizes), sharey=True, squeeze=False)[0]
    colours = {OURS: BLUE, YARDSTICK: SKY_BLUE}
    for axes, peers in zip(panels, found.sizes, strict=True):
        for place, name in enumerate(found.names):
            mine = found.measured(name, peers)
            rate = 0.0 if mine is None else mine.cpu_rate
            axes.barh(place, rate, color=colours.get(name, GREY))
            axes.annotate(
                "not finished" if mine is None else _rate(rate),
                (rate, place),
                xytext=(3, 0),
                textcoords="offset points",
                va="center",
                fontsize=7,
            )
        axes.set_yticks(range(len(found.names)), [SHOWN[name] for name in found.names])
        axes.set_title(f"{peers:,} peers")
        axes.margins(x=0.25)
        axes.grid(visible=False, axis="y")
    panels[0].invert_yaxis()
    figure.supxlabel("peer-rounds per CPU-second", fontsize=8)
    return figure


def _rate(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"


def _kilobytes(value: float | None) -> str:
    return "–" if value is None else f"{max(0.0, value):,.0f}"


def main() -> None:
    """Write the page and draw its picture."""
    found = read()
    write_text(PAGE_FILE, page(found))
    with use_style():
        file = io.BytesIO()
        draw(found).savefig(file, format="png", metadata={"Software": None})
        save_picture(file.getvalue(), PICTURE, WIDTH, PICTURES, NUM_COLOURS)


if __name__ == "__main__":
    main()

"""Writes the tables of README.md, docs/running.md and docs/scaling.md that hold measured numbers.

usage: python tools/write_readme_tables.py [FOLDER]

FOLDER has the run of the demo, as `python tools/make_pictures.py FOLDER` leaves it; its results
are kept in docs/readme/demo.json. Without FOLDER the tables are written from what is kept.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from docs_folder import DOCS
from scaling_tables import many_peers_table, million_table, nodes_table, rows_table

ROOT = DOCS.parent
KEPT = DOCS / "readme" / "demo.json"
BENCH = ROOT / "benchmarks" / "results" / "2026-11-20-bench.json"
MODELS = ("cifar-cnn", "fashion-cnn", "pens-cnn", "pacs-cnn", "mlp")
STRATEGIES = {
    "local": "each peer trains alone",
    "random": "merge with random peers",
    "dac": "sample peers with similar models (DAC, default settings)",
    "oracle": "merge within the true cluster, which no real peer knows",
    "kin": "merge the models that pass Kin's test",
}


def main() -> None:
    """Keep the results of a run, if one is named, and write the tables."""
    if sys.argv[1:]:
        KEPT.write_text(json.dumps(results(Path(sys.argv[1]) / "runs" / "demo"), indent=2) + "\n")
    for page, names in TABLES.items():
        for name in names:
            page.write_text(with_table(page.read_text(), name))


def results(folder: Path) -> dict[str, Any]:
    """Return the test accuracy of each strategy, and how many peers did better alone."""
    import coterie

    runs = coterie.load_runs(folder)
    last: dict[tuple[str, int, int], float] = {}
    for row in runs.table("metrics").to_pylist():
        if row["test_score"] == row["test_score"]:  # rounds without a test have NaN
            last[row["strategy"], row["seed"], row["peer"]] = row["test_score"]
    strategies = {}
    for name in STRATEGIES:
        mine = {key[1:]: value for key, value in last.items() if key[0] == name}
        worse = sum(value < last["local", *key] for key, value in mine.items())
        mean = 100 * sum(mine.values()) / len(mine)
        strategies[name] = {"accuracy_percent": round(mean, 2), "num_worse_than_alone": worse}
    num_peers = len({(seed, peer) for _, seed, peer in last})
    return {"num_peers_of_all_seeds": num_peers, "strategies": strategies}


def with_table(text: str, name: str) -> str:
    """Return the text of a page with one of its tables written again."""
    table = WRITERS[name]()
    found = re.compile(rf"(<!-- {name}: [^\n]* -->\n).*?(<!-- end -->)", re.DOTALL)
    return found.sub(lambda match: f"{match[1]}\n{table}\n\n{match[2]}", text)


def demo_table() -> str:
    """Return the results of the demo."""
    kept = json.loads(KEPT.read_text())
    columns = ("strategy", "what a peer does", "test accuracy")
    rows = [f"| {' | '.join(columns)} | peers of all seeds that did better alone |"]
    rows.append("|---|---|---|---|")
    for name, what in STRATEGIES.items():
        result = kept["strategies"][name]
        worse = f"{result['num_worse_than_alone']} of {kept['num_peers_of_all_seeds']}"
        alone = "–" if name == "local" else worse
        rows.append(f"| {name} | {what} | {result['accuracy_percent']:.1f} % | {alone} |")
    return "\n".join(rows)


def speed_table() -> str:
    """Return how many times as fast as torch the compiled trainer is."""
    bench = json.loads(BENCH.read_text())
    rows = ["| model | training | evaluation |", "|---|---|---|"]
    for name in MODELS:
        training = bench[name]["train_native_times_torch_fused"]
        evaluation = bench[name]["evaluate_native_times_torch"]
        rows.append(f"| {name} | {training:.1f} × torch | {evaluation:.1f} × torch |")
    return "\n".join(rows)


TABLES = {
    ROOT / "README.md": ("demo",),
    DOCS / "running.md": ("speed",),
    DOCS / "scaling.md": ("many-peers", "rows", "nodes", "million"),
}
WRITERS = {
    "demo": demo_table,
    "speed": speed_table,
    "many-peers": many_peers_table,
    "rows": rows_table,
    "nodes": nodes_table,
    "million": million_table,
}


if __name__ == "__main__":
    main()

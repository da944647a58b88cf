"""Runs for the tests of pages, from the few rows of their tables that a test is about."""

from __future__ import annotations

from pathlib import Path

from recorded_tables import recorded

from coterie.data.scenario import PeerSettings
from coterie.experiments.config import RunConfig
from coterie.experiments.recorded_tables import RecordedTables
from coterie.experiments.run_folder import RunFolder
from coterie.reports.html.run_groups import RunGroup
from coterie.runtime.run_tables import SCHEMAS
from coterie.tasks.score import ACCURACY

NAMES = ("left", "right")


def run(label, seed=0, *, strategy=None, num_peers=4, rounds=2, score=ACCURACY, **rows):
    """Return a run that has not finished, whose tables have these rows."""
    tables = {name: recorded(name, given) for name, given in rows.items()}
    numbers = sorted({row["round"] for row in rows["metrics"]})
    tables["timings"] = recorded("timings", [{"round": number} for number in numbers])

    def read(folder, name):
        return tables.get(name, SCHEMAS[name].empty_table())

    config = RunConfig(
        preset="own",
        label=label,
        seed=seed,
        rounds=rounds,
        peers=PeerSettings(count=num_peers, train_size=8, validation_size=4),
        strategy={"name": strategy or "random"},
    )
    folder = Path(f"{label}-seed{seed}")
    found = RunFolder(
        folder, config, cluster_names=NAMES, tables=RecordedTables(folder, num_peers, read)
    )
    found.__dict__["score"] = score
    return found


def metrics(number, levels, clusters=(0, 0, 1, 1), step=0, **more):
    """Return a round of peers with these scores in validation and test; losses are unknown."""
    names = [f"validation_score_{moment}" for moment in ("before", "merged", "trained")]
    names.append("test_score")
    unknown = dict.fromkeys([name.replace("score", "loss") for name in names], float("nan"))
    return [
        {
            "round": number,
            "peer": peer,
            "cluster": cluster,
            "step": step,
            **dict.fromkeys(names, level),
            **unknown,
            **more,
        }
        for peer, (level, cluster) in enumerate(zip(levels, clusters, strict=True))
    ]


def fetches(number, pairs, **more):
    """Return exchanges of one round: (receiver, sender) pairs."""
    return [{"round": number, "receiver": one, "sender": other, **more} for one, other in pairs]


def run_group(*runs):
    """Return a group of runs."""
    return RunGroup(tuple(runs))

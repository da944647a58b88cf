"""Several runs together: means over seeds, what is shown, and what runs that go on have to say."""

from __future__ import annotations

import io
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from recorded_tables import recorded
from rich.console import Console

from coterie.data.scenario import PeerSettings
from coterie.errors import ConfigError, StorageError
from coterie.experiments.config import RunConfig
from coterie.experiments.run_folder import RunFolder
from coterie.results.analyses.analyse_runs import (
    analyse_runs,
    as_json,
    choose_analyses,
    console_table,
    save_details,
)
from coterie.runtime.recorder import Recorder
from coterie.runtime.round import Round
from coterie.strategies.strategy import GroundTruth
from coterie.tasks.score import ACCURACY, MSE


def a_run(folder, label, seed=0):
    """Return a run of 4 peers that lies in a folder."""
    peers = PeerSettings(count=4, train_size=8, validation_size=4)
    return RunFolder(
        folder, RunConfig(label=label, seed=seed, peers=peers, strategy={"name": "random"})
    )


def finished(folder, label, seed, fetched_from_own, rounds=3):
    """Write the tables of a run in which peer 0 of 4 receives two models a round."""
    folder.mkdir()
    tables = {
        "metrics": [
            {"round": n, "peer": p, "cluster": p % 2, "models_received": 2 * (p == 0)}
            for n in range(rounds)
            for p in range(4)
        ],
        "neighbours": [
            {
                "round": n,
                "peer": p,
                "cluster": p % 2,
                "num_received": 2 * (p == 0),
                "num_same_cluster": fetched_from_own * (p == 0),
            }
            for n in range(1, rounds)
            for p in range(4)
        ],
        "timings": [{"round": n} for n in range(rounds)],
    }
    for name, rows in tables.items():
        pq.write_table(recorded(name, rows), folder / f"{name}.parquet")
    return a_run(folder, label, seed)


@pytest.fixture
def runs(tmp_path):
    return [
        finished(tmp_path / "a0", "a", 0, 0),
        finished(tmp_path / "b0", "b", 0, 1),
        finished(tmp_path / "a1", "a", 1, 2),
    ]


def test_mean_and_interval_over_seeds(runs):
    (result,), missing = analyse_runs(runs, choose_analyses("fetched"), 10)
    assert missing == []
    one, other = result.rows
    assert (one.label, one.seeds, other.label, other.seeds) == ("a", (0, 1), "b", (0,))
    precision = one.estimates["precision"]
    assert precision.mean == 0.5
    # Student's t with one degree of freedom: 12.706 · 0.7071 / √2.
    assert precision.width == pytest.approx(12.7062 * 0.5, rel=1e-4)
    assert math.isnan(other.estimates["precision"].width)
    assert one.estimates["models_per_peer"].mean == 1.5
    assert result.details["strategy"].to_pylist()[0] == "a"
    assert sorted(set(result.details["seed"].to_pylist())) == [0, 1]


def test_what_nobody_recorded_is_named_with_what_to_do(runs):
    results, missing = analyse_runs(runs, choose_analyses(None), 10)
    assert [result.analysis.name for result in results] == ["fetched", "merges"]
    texts = {analysis.name: analysis.missing for analysis in missing}
    assert "watch.peers" in texts["similarity"]
    assert "drift" in texts["recovery"]
    assert "pens" in texts["neighbours"]


def test_tables_for_people(runs):
    (result,), _ = analyse_runs(runs, choose_analyses("fetched"), 10)
    console = Console(width=120, file=io.StringIO())
    console.print(console_table(result))
    text = console.file.getvalue()
    assert "50.0 ± 635.3" in text
    assert "–" in text, "nothing was merged, so the shares of the weight are unknown"
    assert "models" in text


@pytest.mark.parametrize(
    ("score", "title", "shown"), [(ACCURACY, "merged %", "50.0"), (MSE, "merged MSE", "0.500")]
)
def test_scores_are_shown_by_their_names(tmp_path, score, title, shown):
    run = finished(tmp_path / "a0", "a", 0, 0)
    run.write_score(score)
    moments = [f"validation_score_{moment}" for moment in ("before", "merged", "trained")]
    rows = [{"round": n, **dict.fromkeys(moments, 0.5)} for n in range(3)]
    pq.write_table(recorded("metrics", rows), run.folder / "metrics.parquet")
    (result,), _ = analyse_runs([run], choose_analyses("merges"), 10)
    columns = {str(each.header): list(each.cells) for each in console_table(result).columns}
    assert columns[title][0] == shown


def test_json_has_null_for_what_is_unknown(runs):
    results, _ = analyse_runs(runs, choose_analyses("fetched"), 10)
    answer = json.loads(as_json(results))
    assert answer["fetched"][1]["strategy"] == "b"
    assert answer["fetched"][1]["precision"] == {"mean": 0.5, "interval": None}
    assert answer["fetched"][1]["weight_share"]["mean"] is None


@pytest.mark.parametrize("as_csv", [True, False])
def test_saved_tables_hold_every_round(runs, tmp_path, as_csv):
    results, _ = analyse_runs(runs, choose_analyses("fetched"), 10)
    (path,) = save_details(results, tmp_path / "new" / "folder", as_csv=as_csv)
    if as_csv:
        header, *lines = path.read_text().splitlines()
        assert header.startswith('"strategy","seed","round","cluster","cluster_name",')
        assert len(lines) == results[0].details.num_rows
    else:
        np.testing.assert_array_equal(
            pq.read_table(path)["precision"].to_numpy(), results[0].details["precision"].to_numpy()
        )


MERGED = {"validation_score_before": 0.5, "validation_score_merged": 0.5}


def merged(folder, seed, names, label="a"):
    """Return a run of four peers in two clusters of these names that has merged."""
    run = finished(folder, label, seed, 0)
    rows = [
        {"round": n, "peer": p, "cluster": p % 2, "status": "active", **MERGED}
        for n in range(3)
        for p in range(4)
    ]
    pq.write_table(recorded("metrics", rows), folder / "metrics.parquet")
    return replace(run, cluster_names=names)


def printed(result):
    console = Console(width=120, file=io.StringIO())
    console.print(console_table(result))
    return console.file.getvalue()


def test_clusters_are_named_everywhere_and_keep_their_numbers(tmp_path):
    run = merged(tmp_path / "a0", 0, ("0°", "90°"))
    (result,), _ = analyse_runs([run], choose_analyses("merges"), 10)
    assert [row.keys for row in result.rows] == [
        {"cluster": "all", "cluster_name": "all"},
        {"cluster": "0", "cluster_name": "0°"},
        {"cluster": "1", "cluster_name": "90°"},
    ]
    told = json.loads(as_json([result]))["merges"]
    assert [(row["cluster"], row["cluster_name"]) for row in told][2] == ("1", "90°")
    assert "│ 90° " in printed(result)
    assert "│ 1 " not in printed(result).replace("│     1 │", "")
    details = result.details.to_pylist()
    assert {(row["cluster"], row["cluster_name"]) for row in details} == {
        ("all", "all"), ("0", "0°"), ("1", "90°")
    }  # fmt: skip


def test_clusters_whose_names_differ_by_seed_are_numbered_in_means(tmp_path):
    """Labels that each seed draws: a mean over seeds is of the clusters of one number."""
    runs = [
        merged(tmp_path / "a0", 0, ("labels 1, 2", "labels 3, 4")),
        merged(tmp_path / "a1", 1, ("labels 5, 6", "labels 7, 8")),
        merged(tmp_path / "b0", 0, ("left", "right"), "b"),
    ]
    (result,), _ = analyse_runs(runs, choose_analyses("merges"), 10)
    names = [(row.label, row.keys["cluster_name"]) for row in result.rows]
    assert names == [
        ("a", "all"), ("a", "cluster 0"), ("a", "cluster 1"),
        ("b", "all"), ("b", "left"), ("b", "right"),
    ]  # fmt: skip
    assert "labels 7, 8" in result.details["cluster_name"].to_pylist()


def test_every_analysis_is_explained():
    page = (Path(__file__).parents[3] / "docs" / "analyses.md").read_text()
    headings = [line.removeprefix("## ") for line in page.splitlines() if line.startswith("## ")]
    assert headings == [analysis.name for analysis in choose_analyses(None)]


def test_an_unknown_analysis_is_refused():
    with pytest.raises(ConfigError, match=r"no analysis 'fetch'\. Did you mean 'fetched'"):
        choose_analyses("merges,fetch")


def test_a_run_that_has_not_begun_does_not_stop_the_others(runs, tmp_path):
    new = a_run(tmp_path / "new", "new")
    (result,), _ = analyse_runs([new, *runs], choose_analyses("fetched"), 10)
    assert {row.label for row in result.rows} == {"a", "b"}
    with pytest.raises(StorageError, match="has no recorded round yet"):
        analyse_runs([new], choose_analyses(None), 10)


def test_only_rounds_that_are_recorded_in_full_count(tmp_path):
    """A flush was cut off in the middle: the metrics are further than the rest."""
    recorder = Recorder(tmp_path)
    for number in range(4):
        recorder.add(
            Round(
                number=number,
                step=0,
                online=np.ones(4, dtype=bool),
                stopped=np.zeros(4, dtype=bool),
                truth=GroundTruth(np.arange(4) % 2),
            )
        )
        if number < 3:
            recorder.flush()
    (tmp_path / "neighbours").rename(tmp_path / "elsewhere")
    with pytest.raises(StorageError):
        recorder.flush()
    (tmp_path / "elsewhere").rename(tmp_path / "neighbours")
    run = a_run(tmp_path, "a")
    assert max(run.table("metrics")["round"].to_pylist()) == 2
    assert run.last_round == 2


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("exchanges", {"sender": 99}),
        ("exchanges", {"receiver": -2}),
        ("metrics", {"cluster": -1}),
        ("similarities", {"other": 4}),
    ],
)
def test_tables_no_run_can_have_written_are_refused(runs, name, row):
    folder = runs[0].folder
    pq.write_table(recorded(name, [row]), folder / f"{name}.parquet")
    with pytest.raises(StorageError, match=f"table '{name}' of .* is damaged: its column"):
        a_run(folder, "a").table(name)


def test_gaps_are_refused(runs):
    folder = runs[0].folder
    table = recorded("metrics", [{}])
    gap = table.set_column(0, table.schema.field(0), pa.array([None], pa.int32()))
    pq.write_table(gap, folder / "metrics.parquet")
    with pytest.raises(StorageError, match="its column 'round'"):
        a_run(folder, "a").table("metrics")

"""coterie analyse, as people use it."""

from __future__ import annotations

import json
import shutil

import pyarrow.parquet as pq
import pytest
from commands import contents, coterie, refused

PENS = (
    "--set",
    "strategy.samples=4",
    "--set",
    "strategy.samplings=2",
    "--set",
    "strategy.exploration_rounds=3",
    "--set",
    "strategy.exploration_epochs=1",
)


@pytest.fixture(scope="module")
def experiment(tmp_path_factory):
    """Return the folder of two strategies with two seeds under drift, with peers watched."""
    folder = tmp_path_factory.mktemp("analyse") / "out"
    done = coterie(
        "run", "digits-drift", "--strategy", "random,pens", "--seeds", 2, "--peers", 8,
        "--rounds", 6, "--threads", 1, "--set", "drift.every=3", "--set", "strategy.fetches=2",
        *PENS, "--set", "watch.peers=[0, 5]", "--set", "watch.every=2", "--out", folder,
    )  # fmt: skip
    assert done.code == 0, done.err
    return folder


def test_everything_is_analysed_and_saved(experiment):
    before = contents(experiment)
    done = coterie("analyse", experiment)
    assert done.code == 0, done.err
    for title in ("similarity:", "fetched:", "neighbours:", "clusters:", "unfetched:", "merges:"):
        assert title in done.out
    assert "recovery: validation score around shifts" in done.out
    assert "cosine-gradients" in done.out
    assert "±" in done.out
    after = contents(experiment)
    assert before == {name: after[name] for name in before}
    assert {name for name in after if name not in before} == {
        f"analyses/{name}.parquet"
        for name in (
            "similarity", "fetched", "neighbours", "clusters", "unfetched", "merges", "recovery"
        )
    }  # fmt: skip
    merges = pq.read_table(experiment / "analyses" / "merges.parquet")
    assert set(merges["strategy"].to_pylist()) == {"random", "pens"}
    assert set(merges["round"].to_pylist()) == set(range(1, 7))
    named = 0
    for path in sorted((experiment / "analyses").iterdir()):
        table = pq.read_table(path)
        if "cluster" in table.column_names:
            named += 1
            pairs = zip(
                table["cluster"].to_pylist(), table["cluster_name"].to_pylist(), strict=True
            )
            assert set(pairs) <= {
                ("all", "all"),
                ("0", "0°"),
                ("1", "90°"),
                ("2", "180°"),
                ("3", "270°"),
            }
    assert named == 6, "all but the agreement of groups, which is of all peers"
    again = coterie("analyse", experiment)
    assert again.out == done.out
    assert contents(experiment) == after


def test_one_run_as_json(experiment, tmp_path):
    run = experiment / "pens-seed1"
    done = coterie(
        "analyse", run, "--only", "neighbours,recovery", "--json", "--csv", "--out", tmp_path / "x"
    )
    assert done.code == 0, done.err
    answer = json.loads(done.out)
    assert list(answer) == ["neighbours", "recovery"]
    (row,) = answer["neighbours"]
    assert (row["strategy"], row["seeds"]) == ("pens", [1])
    assert 0 <= row["precision"]["mean"] <= 1
    assert [row["shift"] for row in answer["recovery"]] == ["1", "all"]
    assert sorted(contents(tmp_path / "x")) == ["neighbours.csv", "recovery.csv"]
    assert not (run / "analyses").exists()


def test_clusters_have_the_same_names_in_older_runs(experiment, tmp_path):
    """Runs that have no clusters.json, or a damaged one, say the names in what they reached."""
    older = tmp_path / "older"
    shutil.copytree(experiment, older)
    (older / "random-seed0" / "clusters.json").unlink()
    (older / "pens-seed0" / "clusters.json").write_text("{")
    told, expected = (
        json.loads(coterie("analyse", folder, "--only", "merges", "--json").out)["merges"]
        for folder in (older, experiment)
    )
    assert told == expected
    assert {row["cluster_name"] for row in told} == {"all", "0°", "90°", "180°", "270°"}


def test_the_settings_of_a_sweep_are_not_taken_for_seeds(tmp_path):
    done = coterie(
        "sweep", "digits", "--strategy", "random,local", "--vary", "strategy.fetches=1,2",
        "--peers", 8, "--rounds", 2, "--threads", 1, "--out", tmp_path / "out",
    )  # fmt: skip
    assert done.code == 0, done.err
    done = coterie("analyse", tmp_path / "out", "--only", "merges", "--json")
    labels = {(row["strategy"], len(row["seeds"])) for row in json.loads(done.out)["merges"]}
    assert labels == {
        ("random strategy.fetches=1", 1),
        ("random strategy.fetches=2", 1),
        ("local", 1),
    }


def test_a_run_without_drift_or_watching_says_so(tmp_path):
    done = coterie(
        "run", "digits", "--strategy", "local", "--peers", 8, "--rounds", 1, "--threads", 1,
        "--out", tmp_path / "out",
    )  # fmt: skip
    assert done.code == 0, done.err
    done = coterie("analyse", tmp_path / "out")
    assert done.code == 0, done.err
    assert "recovery: These runs have no drift" in done.out
    assert "similarity: No peers were watched" in done.out
    asked = coterie("analyse", tmp_path / "out", "--only", "recovery,similarity,merges")
    refused(asked, 2, "recovery: These runs have no drift", "--set 'watch.peers=[0, 1]'")


def test_folders_that_are_no_runs(tmp_path):
    refused(coterie("analyse", tmp_path), 4, tmp_path, "not an output folder of coterie run")
    refused(coterie("analyse", tmp_path / "nowhere"), 4, "There is no folder")


def test_unknown_analyses_and_watching_nobody(experiment, tmp_path):
    refused(coterie("analyse", experiment, "--only", "mergers"), 2, "Did you mean 'merges'")
    answer = coterie(
        "run", "--peers", 8, "--rounds", 1, "--strategy", "random", "--set", "watch.peers=[8]",
        "--set", "strategy.fetches=2", "--out", tmp_path / "out",
    )  # fmt: skip
    refused(answer, 2, "watch.peers names peer 8", "numbered 0 to 7")
    assert not (tmp_path / "out").exists()

"""A user's own data on the command line: a table, a .npz file and a folder of images."""

from __future__ import annotations

import json

import numpy as np
import pytest
from commands import contents, coterie, plain, refused
from own_tables import farm_rows, write_farms
from PIL import Image

from coterie import load_run
from coterie.experiments.config import read_config
from coterie.results.read_runs import read_runs

QUICK = ("--rounds", 2, "--threads", 1, "--strategy", "local,kin")
COLUMNS = ("--peers-by", "farm", "--label", "crop", "--ignore", "yield")


@pytest.fixture
def farms(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return write_farms(tmp_path / "farms.csv")


def test_a_table_runs_with_the_peers_that_a_column_names(farms, tmp_path):
    done = coterie("run", farms, *COLUMNS, "--time", "day", "--windows", 3, *QUICK, "--out", "o")
    assert done.code == 0, done.err
    assert "3 peers with 10 training and 3 validation samples on average in each of 2" in done.err
    assert "Task: 2 classes (bad, good)." in done.err
    assert "Model: small-mlp" in done.err
    assert "farms-data: test accuracy %" in plain(done.out)
    config = read_config(tmp_path / "o" / "kin-seed0" / "config.yaml")
    assert config.data.files.path == farms
    assert len(config.data.files.sha256) == 64
    assert config.peers.count == 3
    assert load_run(tmp_path / "o" / "kin-seed0").peer_names == ("east", "north", "west")


def test_values_are_predicted_and_their_unit_is_said(farms):
    done = coterie(
        "run",
        farms,
        "--peers-by",
        "farm",
        "--label",
        "yield",
        "--features",
        "rain",
        *QUICK,
        "--out",
        "o",
    )
    assert done.code == 0, done.err
    assert "Errors are in the units of the label" in done.err
    assert "test RMSE" in plain(done.out)


def test_one_peer_is_enough(farms):
    write_farms(farms, farm_rows()[:40])
    done = coterie(
        "run", farms, *COLUMNS, "--ignore", "yield,day", "--rounds", 2, "--threads", 1, "--out", "o"
    )
    assert done.code == 0, done.err
    assert "1 peer with 24 training" in done.err


def test_a_run_is_resumed_repeated_and_swept_like_any_other(farms, tmp_path):
    words = (*COLUMNS, "--ignore", "yield,day", *QUICK)
    assert coterie("run", farms, *words, "--out", "o").code == 0
    (tmp_path / "o" / "kin-seed0" / "summary.json").unlink()
    assert coterie("resume", "o", "--threads", 1).code == 0
    again = coterie("run", "o", "--threads", 1, "--out", "again")
    assert again.code == 0, again.err
    first, second = (read_runs([tmp_path / name]) for name in ("o", "again"))
    for before, after in zip(first, second, strict=True):
        assert (
            contents(before.folder)["metrics.parquet"] == contents(after.folder)["metrics.parquet"]
        )
    vary = ("--vary", "training.learning_rate=0.01,0.001")
    swept = coterie("sweep", "o/kin-seed0/config.yaml", *vary, "--threads", 1, "--out", "s")
    assert swept.code == 0, swept.err
    for command in (("compare", "o", "again"), ("report", "o"), ("analyse", "o")):
        shown = coterie(*command)
        assert shown.code == 0, shown.err


def test_seeds_give_other_parts_of_each_peer(farms, tmp_path):
    words = (
        *COLUMNS,
        "--ignore",
        "yield,day",
        "--rounds",
        1,
        "--threads",
        1,
        "--strategy",
        "local",
    )
    done = coterie("run", farms, *words, "--seeds", 2, "--out", "o")
    assert done.code == 0, done.err
    one, two = (run.metrics for run in read_runs([tmp_path / "o"]))
    assert not one["test_loss"].equals(two["test_loss"])


def test_a_changed_file_is_refused(farms):
    assert coterie("run", farms, *COLUMNS, "--ignore", "yield,day", *QUICK, "--out", "o").code == 0
    farms.write_text(farms.read_text().replace("clay", "mud"))
    error = refused(coterie("run", "o", "--threads", 1, "--out", "again"), 3)
    assert "farms.csv has changed, or is another version" in error


def test_arrays_and_images_have_their_own_small_model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    names = np.array(["ann", "bob"])[np.arange(60) % 2]
    inputs = rng.normal(size=(60, 1, 8, 8)).astype(np.float32)
    np.savez("sounds.npz", inputs=inputs, labels=np.arange(60) % 3, peers=names)
    done = coterie("run", "sounds.npz", *QUICK, "--out", "sounds")
    assert done.code == 0, done.err
    assert "Model: small-cnn" in done.err
    for number in range(48):
        place = tmp_path / "photos" / ("ann", "bob")[number % 2] / ("x", "y")[number // 2 % 2]
        place.mkdir(parents=True, exist_ok=True)
        pixels = rng.integers(0, 255, (10, 10, 3)).astype(np.uint8)
        Image.fromarray(pixels).save(place / f"{number}.png")
    done = coterie("run", "photos", "--image-size", 16, *QUICK, "--out", "photographed")
    assert done.code == 0, done.err
    assert "2 peers with 14 training" in done.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "add --peers-by and --label"),
        (("--peers-by", "farm"), "add --label"),
        (("--peers-by", "Farm", "--label", "crop"), "no column 'Farm'. Did you mean 'farm'?"),
        (("--peers-by", "farm", "--label", "crops"), "no column 'crops'. Did you mean 'crop'?"),
        (
            (*COLUMNS, "--features", "rain,rain"),
            "Error: the column 'rain' is named twice in features.",
        ),
        ((*COLUMNS, "--features", "rain,crop"), "'crop' is named twice, in label and features"),
        ((*COLUMNS, "--ignore", "yield,day", "--time", "soil"), "cannot be read as time"),
        ((*COLUMNS, "--windows", 4), "--windows needs --time"),
        ((*COLUMNS, "--image-size", 4), "--image-size cannot be used"),
        (("--peers-by", "yield", "--label", "crop"), "most peers would have one row"),
        ((*COLUMNS, "--time", "day", "--peers", 2), "--peers 2: the peers are those of farms.csv"),
        ((*COLUMNS, "--time", "day", "--scale", 0.5), "--scale 0.5: the peers are those of"),
        ((*COLUMNS, "--time", "day", "--set", "peers.count=2"), "do not fit farms.csv"),
        (
            (*COLUMNS, "--time", "day", "--windows", 3, "--set", "drift={kind: random, every: 2}"),
            "drift.kind = random",
        ),
        (
            (*COLUMNS, "--time", "day", "--windows", 3, "--strategy", "oracle"),
            "no clusters are known",
        ),
    ],
)
def test_mistakes_are_answered_in_one_sentence(farms, words, message):
    words = words if "--strategy" in words else (*words, "--strategy", "local")
    answer = coterie("run", farms, *words, "--threads", 1, "--rounds", 1, "--out", "o")
    assert answer.code in (2, 3), answer.out
    assert message in plain(answer.err)
    assert "Traceback" not in answer.err


def test_a_text_with_thousands_of_values_says_how_to_leave_it_out(farms):
    rows = [[*row[:2], f"note {number}", *row[3:]] for number, row in enumerate(farm_rows())]
    write_farms(farms, rows)
    error = refused(coterie("run", farms, *COLUMNS, "--ignore", "yield,day"), 3)
    assert "'soil' has 120 different texts" in error
    assert "--ignore soil" in error


def test_peers_with_too_few_rows_are_left_out_or_refused(farms):
    write_farms(farms, farm_rows()[:90])
    words = (*COLUMNS, "--ignore", "yield,day", *QUICK)
    done = coterie("run", farms, *words, "--out", "o")
    assert "1 peer with fewer than 20 rows left out: west." in done.err
    write_farms(farms, farm_rows(10))
    error = refused(coterie("run", farms, *words), 3)
    assert "all 3 peers have fewer than 20 rows" in error
    done = coterie("run", farms, *words, "--min-rows", 10, "--out", "small")
    assert "3 peers with 6 training and 2 validation" in done.err, done.err


def test_options_of_files_are_refused_for_presets(tmp_path):
    error = refused(coterie("run", "digits", "--peers-by", "farm"), 2)
    assert "--peers-by is for files with your own data" in error
    error = refused(coterie("run", tmp_path / "absent.csv", "--peers-by", "a", "--label", "b"), 3)
    assert "There is no file" in error


def test_the_names_of_columns_stay_what_they_are(farms, tmp_path):
    """A file cannot make a setting: names are data."""
    farms.write_text(farms.read_text().replace("farm,day", "a=b: {c},day"))
    done = coterie(
        "run",
        farms,
        "--peers-by",
        "a=b: {c}",
        *COLUMNS[2:],
        "--ignore",
        "yield,day",
        *QUICK,
        "--out",
        "o",
    )
    assert done.code == 0, done.err
    saved = json.loads((tmp_path / "o" / "kin-seed0" / "summary.json").read_text())
    assert saved["label"] == "kin"

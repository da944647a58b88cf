"""Published numbers beside ours, and --scale, as a user meets them; all of it offline."""

from __future__ import annotations

import pytest
from commands import coterie, plain, refused

from coterie.experiments.config import read_config
from coterie.runtime.run_tables import read_table

QUICK = ("--scale", 0.1, "--threads", 1)
SHORT = ("friends-synthetic", *QUICK, "--strategy", "oracle,fedavg")


def table_of(out: str) -> list[str]:
    """Return what was printed, without the line that names the folder."""
    return [line for line in out.splitlines() if "All files are in" not in line]


def test_a_shortened_run_is_shown_beside_the_published_one_and_says_so(tmp_path):
    done = coterie("run", *SHORT, "--out", tmp_path / "out")
    assert done.code == 0, done.err
    cells = [
        [cell.strip() for cell in line.strip("│").split("│")]
        for line in done.out.splitlines()
        if line.startswith("│")
    ]
    assert [row[0] for row in cells] == ["oracle", "published", "difference", "fedavg"]
    ours, theirs, difference = (float(row[4]) for row in cells[:3])
    assert theirs == 9.43
    assert difference == pytest.approx(ours - theirs, abs=0.011)
    assert difference > 0
    caption = plain(done.out)
    assert "published: Hagander & Ihre-Thomason 2024, table 4.3, mean of 15 seeds" in caption
    shortened = "shortened: 5 of 50 rounds; patience 5 instead of 50; 9 of 99 peers"
    assert f"Not a reproduction: {shortened}" in caption
    assert "1 of 15 seeds" in caption


def test_resume_shows_the_same(tmp_path):
    done = coterie("run", *SHORT, "--out", tmp_path / "out")
    again = coterie("resume", tmp_path / "out")
    assert again.code == 0, again.err
    assert "Not a reproduction" in again.out
    assert table_of(again.out) == table_of(done.out)


def test_digits_have_no_published_numbers(tmp_path):
    done = coterie("run", "digits", *QUICK, "--out", tmp_path / "out")
    assert done.code == 0, done.err
    printed = "\n".join(table_of(done.out))
    for word in ("published", "Not a reproduction", "difference"):
        assert word not in printed
    assert "oracle" in printed


def test_a_scaled_run_is_scaled_throughout(tmp_path):
    done = coterie(
        *("run", "digits-drift", *QUICK, "--strategy", "random", "--out", tmp_path / "out")
    )
    assert done.code == 0, done.err
    config = read_config(tmp_path / "out" / "random-seed0" / "config.yaml")
    assert (config.rounds, config.drift.every, config.peers.count) == (6, 2, 8)
    metrics = read_table(tmp_path / "out" / "random-seed0", "metrics")
    assert metrics.num_rows == 7 * 8
    assert set(metrics["step"].to_pylist()) == {0, 1, 2}
    assert set(metrics["cluster"].to_pylist()) == {0, 1, 2, 3}


def test_what_is_given_comes_after_the_scale(tmp_path):
    done = coterie(
        *("run", "digits", *QUICK, "--strategy", "random", "--rounds", 2, "--peers", 12),
        *("--set", "strategy.fetches=3", "--out", tmp_path / "out"),
    )
    assert done.code == 0, done.err
    config = read_config(tmp_path / "out" / "random-seed0" / "config.yaml")
    assert (config.rounds, config.peers.count, config.strategy["fetches"]) == (2, 12, 3)


@pytest.mark.parametrize("scale", ["0", "-0.1", "1.5", "nan"])
def test_a_scale_that_is_no_part(tmp_path, scale):
    answer = coterie("run", "digits", "--scale", scale, "--out", tmp_path / "out")
    refused(answer, 2, f"--scale {scale}", "above 0 and at most 1", "0.1")
    assert not (tmp_path / "out").exists()


def test_a_scale_that_is_no_number(tmp_path):
    answer = coterie("run", "digits", "--scale", "tiny", "--out", tmp_path / "out")
    refused(answer, 2, "--scale tiny", "expected a number")

"""The terminal view: it fits 80 columns and shows the runs in progress."""

from __future__ import annotations

import io
import json

import pytest
from rich.cells import cell_len
from rich.console import Console
from watching_runs import create

from coterie.reports.live.progress_text import describe_time_left
from coterie.reports.live.run_follower import RunFollower
from coterie.reports.live.terminal_view import (
    ChangeLines,
    draw_sparkline,
    render_screen,
    shorten_label,
    show_in_terminal,
)


def drawn(folder, width: int = 80) -> list[str]:
    file = io.StringIO()
    console = Console(file=file, width=width, force_terminal=True, color_system=None)
    snapshot = RunFollower(folder).take_snapshot()
    assert snapshot is not None
    console.print(render_screen(snapshot, width))
    return file.getvalue().splitlines()


@pytest.mark.parametrize(
    "name", ["0°", "a rather long name of a cluster", "[bold]x[/]", "\x1b[31mred", "猫" * 9]
)
def test_it_fits_80_columns(runs, name):
    for summary in runs.glob("*/summary.json"):
        content = json.loads(summary.read_text())
        names = [f"{name}{number}" for number in range(4)]
        summary.write_text(json.dumps({**content, "cluster_names": names}))
    lines = drawn(runs)
    assert max(map(cell_len, lines)) <= 80
    text = "\n".join(lines)
    assert "\x1b[31m" not in text
    assert "digits" in lines[0]
    assert "4 of 4 runs done" in lines[0]
    (random,) = [line for line in lines if line.startswith("random")]
    (local,) = [line for line in lines if line.startswith("local")]
    assert any(block in random for block in "▁▂▃▄▅▆▇█")
    assert "%" in random
    assert "–" in local  # it fetched nothing


def test_runs_that_go_on_are_named(runs):
    (runs / "random-seed0" / "summary.json").unlink()
    lines = drawn(runs)
    assert "  random-seed0: round 6 of 6" in [line.rstrip() for line in lines]


def test_problems_are_shown(runs):
    (runs / "random-seed0" / "metrics.parquet").write_bytes(b"no table")
    assert any("random-seed0" in line and "damaged" in line for line in drawn(runs, 200))


def test_before_the_first_round(tmp_path):
    assert "no such folder" in " ".join(drawn(tmp_path / "later", 200))
    create(tmp_path / "out", ["random"], [0], **{"strategy.fetches": 2})
    lines = drawn(tmp_path / "out")
    assert "0 of 1 runs done" in lines[0]
    assert len(lines) == 1


def test_one_line_per_change(runs):
    follower = RunFollower(runs)
    lines = ChangeLines()
    (runs / "random-seed0" / "summary.json").unlink()
    first = lines.describe_changes(follower.take_snapshot())
    assert len(first) == 4
    assert lines.describe_changes(RunFollower(runs).take_snapshot()) == []
    (runs / "experiment.yaml").write_text("runs: 7")
    changed = follower.take_snapshot()
    assert any("damaged" in line for line in lines.describe_changes(changed))
    assert lines.describe_changes(changed) == []


def test_a_terminal_is_left_when_all_has_finished(runs):
    file = io.StringIO()
    show_in_terminal(RunFollower(runs), Console(file=file, width=80, force_terminal=True))
    assert "4 of 4 runs done" in file.getvalue()


@pytest.mark.parametrize(
    ("values", "expected"),
    [([], ""), ([None], ""), ([5.0], "▁"), ([0, 1], "▁█"), ([1, None, 0, 0.5], "█▁▅")],
)
def test_sparklines(values, expected):
    assert draw_sparkline(values, 10) == expected


def test_long_sparklines_keep_their_ends():
    line = draw_sparkline([float(n) for n in range(1000)], 8)
    assert line == "▁▂▃▄▅▆▇█"


def test_what_tells_variants_apart_is_kept():
    assert shorten_label("dac-cosine-gradients-fedsim", 18) == "dac-cosin…s-fedsim"
    assert shorten_label("dac", 18) == "dac"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(None, ""), (4.2, "about 4 s left"), (240, "about 4 min left"), (9000, "about 2.5 h left")],
)
def test_the_time_that_is_left_in_words(seconds, words):
    assert describe_time_left(seconds) == words

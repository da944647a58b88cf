"""Folders to write to or to resume that cannot be used: one clear message, nothing lost."""

from __future__ import annotations

import contextlib
import io
import math
import os
import shlex
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commands import JARGON, SMALL, Answer, contents, coterie, refused, results, run_with

from coterie.cli.main import main
from coterie.runtime import recorder
from coterie.simulation.simulation import Simulation


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """Return the folder of a finished experiment; tests work on copies."""
    folder = tmp_path_factory.mktemp("finished") / "out"
    assert coterie("run", *SMALL, "--out", folder).code == 0
    return folder


@pytest.fixture(scope="module")
def stopped(tmp_path_factory) -> Path:
    """Return the folder of an experiment that Ctrl-C has stopped after round 2 of 3."""
    folder = tmp_path_factory.mktemp("stopped") / "out"
    advance = Simulation.advance

    def stop_later(simulation: Simulation):
        now = advance(simulation)
        if now.number == 2:
            signal.raise_signal(signal.SIGINT)
        return now

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Simulation, "advance", stop_later)
        patch.setattr(recorder, "FLUSH_SECONDS", 0.0)
        options = ("--rounds", 3, "--set", "checkpoint_every=1", "--out", folder)
        assert coterie("run", *SMALL, *options).code == 130
    return folder


# Output folders


def test_the_output_folder_is_a_file(tmp_path):
    (tmp_path / "out").write_text("mine")
    message = refused(run_with(tmp_path), 4, tmp_path / "out", "file", "another")
    assert "empty" not in message
    assert (tmp_path / "out").read_text() == "mine"


@pytest.mark.parametrize("place", ["file/out", "/proc/nobody/out", "x" * 300])
def test_the_output_folder_cannot_be_made(tmp_path, place):
    (tmp_path / "file").write_text("mine")
    answer = coterie("run", *SMALL, "--out", tmp_path / place)
    refused(answer, 4, tmp_path / place, "--out")


def test_the_output_folder_holds_another_run(finished, tmp_path):
    folder = shutil.copytree(finished, tmp_path / "my run")
    before = contents(folder)
    answer = coterie("run", *SMALL, "--out", folder)
    message = refused(answer, 4, folder, "holds another run", "Choose another")
    assert shlex.join(["coterie", "resume", str(folder)]) in message
    assert contents(folder) == before


def test_the_output_folder_holds_something_else(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.tex").write_text("mine")
    message = refused(run_with(tmp_path), 4, tmp_path / "out", "not empty", "another")
    assert "resume" not in message
    assert contents(tmp_path / "out") == {"thesis.tex": b"mine"}


# Resuming


def test_resuming_what_is_finished_prints_the_table_again(finished, tmp_path):
    folder = shutil.copytree(finished, tmp_path / "out")
    before = contents(folder)
    first, second = coterie("resume", folder), coterie("resume", folder / "random-seed0")
    assert (first.code, second.code) == (0, 0)
    assert "│ random" in first.out
    assert first.out.splitlines()[:-1] == second.out.splitlines()[:-1]
    assert contents(folder) == before


def test_resuming_no_run(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("mine")
    for name in ("empty", "file"):
        answer = coterie("resume", tmp_path / name)
        refused(answer, 4, tmp_path / name, "experiment.yaml", "config.yaml")
    assert not any((tmp_path / "empty").iterdir())


@pytest.mark.parametrize("name", ["nothing", "x" * 300])
def test_resuming_a_folder_that_does_not_exist(tmp_path, name):
    """To say what it lacks would send the user looking in a folder that is not there."""
    answer = coterie("resume", tmp_path / name)
    message = refused(answer, 4, tmp_path / name)
    assert "neither" not in message
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"{", 4),
        (b"\xff\xfe\x00", 4),
        (b"5", None),
        (b"", None),
        (b"peers: {count: 8}", None),
        (b"peers: {count: 8, train_size: 1, validation_size: 1}\nroundz: 3", None),
    ],
)
def test_resuming_with_a_broken_configuration(finished, tmp_path, content, code):
    """Whether it counts as a setting or as a file, the message names the file."""
    folder = shutil.copytree(finished, tmp_path / "out")
    path = folder / "random-seed0" / "config.yaml"
    path.write_bytes(content)
    before = contents(folder)
    answer = coterie("resume", folder)
    assert answer.code in ((code,) if code else (2, 4))
    refused(answer, answer.code, path)
    assert contents(folder) == before


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b"\xff\xfe\x00",
        b"",
        b"[]",
        b"runs: 5",
        b"runs: random-seed0",
        b"runs: []",
        b"runs: [../elsewhere]",
        b"runs: [..]",
        b"runs: ['']",
    ],
)
def test_resuming_with_a_broken_list_of_runs(finished, tmp_path, content):
    shutil.copytree(finished / "random-seed0", tmp_path / "elsewhere")
    shutil.copy(finished / "random-seed0" / "config.yaml", tmp_path)
    folder = shutil.copytree(finished, tmp_path / "out")
    (folder / "experiment.yaml").write_bytes(content)
    before = contents(tmp_path)
    refused(coterie("resume", folder), 4, folder / "experiment.yaml")
    assert contents(tmp_path) == before


def test_resuming_with_a_run_that_is_not_there(finished, tmp_path):
    folder = shutil.copytree(finished, tmp_path / "out")
    (folder / "experiment.yaml").write_text("runs: [random-seed0, random-seed7]")
    refused(coterie("resume", folder), 4, folder / "random-seed7")


def test_resuming_with_a_broken_summary(finished, tmp_path):
    folder = shutil.copytree(finished, tmp_path / "out")
    path = folder / "random-seed0" / "summary.json"
    path.write_text("{")
    refused(coterie("resume", folder), 4, path, "Delete it")
    path.unlink()
    assert coterie("resume", folder, "--threads", 1).code == 0
    assert results(folder) == results(finished)


# Damaged folders, read by all that reads them


def readers(folder: Path, target: Path) -> dict[str, Answer]:
    """Return what each command says that reads run folders."""
    return {
        "report": coterie("report", folder, "-o", target / "report.html"),
        "compare": coterie("compare", folder),
        "analyse": coterie("analyse", folder, "--out", target / "analyses"),
        "figures": coterie("figures", folder, "--out", target / "figures"),
        "export": coterie("export", folder, "--tensorboard", target / "board"),
        "resume": coterie("resume", folder, "--threads", 1),
    }


def rewritten(path: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    pq.write_table(change(pq.ParquetFile(path).read()), path)


def without(name: str) -> Callable[[pa.Table], pa.Table]:
    return lambda table: table.drop_columns([name])


DAMAGED_TABLES: dict[str, tuple[str, Callable[[pa.Table], pa.Table]]] = {
    "rounds are missing": ("timings", without("round")),
    "times are missing": ("timings", without("wall_seconds")),
    "a round is timed twice": ("timings", lambda table: pa.concat_tables([table, table])),
    "a round is not measured": ("metrics", lambda table: table.slice(0, 8)),
    "the first round is not measured": ("metrics", lambda table: table.slice(8)),
    "rounds are in disorder": ("metrics", lambda table: table.take(list(range(23, -1, -1)))),
    "a round took for ever": (
        "timings",
        lambda table: table.set_column(1, "wall_seconds", pa.array([1.0, math.inf, 1.0])),
    ),
    "a loss is beyond all numbers": (
        "metrics",
        lambda table: table.set_column(6, table.column_names[6], pa.array([1e300] * 24)),
    ),
    "a peer is missing": ("metrics", lambda table: table.slice(0, 23)),
    "peers are there twice": ("metrics", lambda table: table.take(sorted([*range(24)] * 2))),
    "there is a cluster more": (
        "metrics",
        lambda table: table.set_column(2, "cluster", pa.array([4] * 24, pa.int32())),
    ),
    "a cluster is far away": (
        "metrics",
        lambda table: table.set_column(2, "cluster", pa.array([2**31 - 1] * 24, pa.int32())),
    ),
}


@pytest.mark.parametrize("damage", DAMAGED_TABLES)
def test_tables_that_no_run_can_have_written(finished, tmp_path, damage):
    folder = shutil.copytree(finished, tmp_path / "out")
    name, change = DAMAGED_TABLES[damage]
    rewritten(folder / "random-seed0" / f"{name}.parquet", change)
    for command, answer in readers(folder, tmp_path).items():
        # The one prints the table again, the other does not look at summaries.
        is_seen = damage != "there is a cluster more" or command != "analyse"
        if command != "resume" and is_seen:
            assert "is damaged: " in refused(answer, 4, name)


@pytest.mark.parametrize("there", ["folder", "link to itself"])
def test_something_else_in_the_place_of_a_table(finished, tmp_path, there):
    folder = shutil.copytree(finished, tmp_path / "out")
    path = folder / "random-seed0" / "metrics.parquet"
    path.unlink()
    if there == "folder":
        path.mkdir()
    else:
        path.symlink_to(path.name)
    for command, answer in readers(folder, tmp_path).items():
        assert answer.code == (0 if command == "resume" else 4), (command, answer)
        assert "[Errno" not in answer.err


def test_files_beside_the_parts_of_a_table_are_not_read(stopped, tmp_path):
    folder = shutil.copytree(stopped, tmp_path / "out")
    run = folder / "random-seed0"
    for part in sorted((run / "metrics").iterdir()):
        shutil.copy(part, part.with_name(f"copy of {part.name}"))
        shutil.copy(part, part.with_name("x.parquet"))
    for command, answer in readers(folder, tmp_path).items():
        assert answer.code == 0, (command, answer)
    assert (run / "summary.json").exists()


def test_a_part_of_a_table_that_leads_nowhere(stopped, tmp_path):
    folder = shutil.copytree(stopped, tmp_path / "out")
    part = next((folder / "random-seed0" / "neighbours").iterdir())
    part.unlink()
    part.symlink_to("nowhere")
    for answer in readers(folder, tmp_path).values():
        assert answer.code in (0, 4)
        assert not [word for word in JARGON if word in answer.err]


@pytest.mark.parametrize("name", ["checkpoints", "experiment.yaml", "config.yaml", "metrics"])
def test_files_that_are_huge(stopped, tmp_path, name):
    """64 GiB of nothing: it takes no room on the disk, but would take all memory."""
    folder = shutil.copytree(stopped, tmp_path / "out")
    run = folder / "random-seed0"
    place = folder / name if name.startswith("experiment") else run / name
    for path in sorted(place.iterdir()) if place.is_dir() else [place]:
        os.truncate(path, 2**36)
    answer = coterie("resume", folder, "--threads", 1)
    assert answer.code == 4, answer
    assert "damaged" in answer.err or "Cannot read the table" in answer.err


def test_a_summary_with_more_clusters_than_means(finished, tmp_path):
    folder = shutil.copytree(finished, tmp_path / "out")
    path = folder / "random-seed0" / "summary.json"
    path.write_text(path.read_text().replace('"cluster_names": [', '"cluster_names": ["x", '))
    refused(coterie("resume", folder), 4, "summary.json is damaged")


def test_a_summary_that_is_huge(finished, tmp_path):
    folder = shutil.copytree(finished, tmp_path / "out")
    os.truncate(folder / "random-seed0" / "summary.json", 2**36)
    refused(coterie("resume", folder), 4, "summary.json is damaged")


def test_the_name_of_a_folder_need_not_be_text(finished, tmp_path, monkeypatch):
    folder = shutil.copytree(finished, tmp_path / os.fsdecode(b"r\xff"))
    for words in (["compare", folder], ["report", folder, "-o", folder / "x.html"]):
        # What a terminal is, and what does not take all that a string can hold.
        out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
        monkeypatch.setattr(sys, "argv", ["coterie", *map(str, words)])
        with contextlib.redirect_stdout(out):
            with contextlib.suppress(SystemExit):
                main()
            out.flush()
        assert b"random" in out.buffer.getvalue() or (folder / "x.html").stat().st_size


def test_a_setting_that_is_far_too_long_is_shortened(finished, tmp_path):
    folder = shutil.copytree(finished, tmp_path / "out")
    path = folder / "random-seed0" / "config.yaml"
    path.write_text(path.read_text().replace("rounds: 2", f"rounds: [{'abc, ' * 9999}]"))
    message = refused(coterie("resume", folder), 2, path, "rounds = ['abc', 'abc'", "…")
    assert len(message) < 1000

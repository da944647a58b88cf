"""`coterie bench` as a user meets it, with compiled code and without."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator

import pytest
from commands import coterie, plain, refused
from rich.console import Console

from coterie.benchmarking.round_speed import describe_round, round_config
from coterie.benchmarking.timing import FULL
from coterie.cli.bench import show_progress
from coterie.learning.native import library

ROUND = "dac round, cifar-cnn, 8 peers, 40/10 images, E=1, m=5"


@pytest.fixture
def without_compiled_code(monkeypatch) -> Iterator[None]:
    monkeypatch.setattr(library, "MODULE", "coterie.learning.native._not_built")
    library.find_library.cache_clear()
    yield
    library.find_library.cache_clear()


@pytest.mark.skipif(isinstance(library.find_library(), str), reason="no compiled code")
def test_everything_is_shown_and_kept(tmp_path):
    file = tmp_path / "bench.json"
    options = ("--quick", "--models", "digits-cnn, linear", "--threads", 2, "--json", file)
    answer = coterie("bench", *options)
    assert answer.code == 0, answer
    for part in ("digits-cnn", "linear", "fused Adam", "of the peak", "nominal", ROUND, file.name):
        assert part in plain(answer.out)
    kept = json.loads(file.read_text())
    assert kept["level"] == library.find_library().level
    assert kept["versions"]["torch"]
    figures = kept["digits-cnn"]
    ratio = figures["train_native_samples_per_second"] / figures["train_torch_samples_per_second"]
    assert figures["train_native_times_torch"] == pytest.approx(ratio, rel=0.01)
    assert kept[ROUND].keys() == {"1 thread", "2 threads"}
    for speed in kept[ROUND].values():
        assert 0 < speed["compiled_share_of_cpu_time"] <= 1
        assert speed["cpu_seconds_per_peer_round"] > 0


@pytest.mark.usefixtures("without_compiled_code")
def test_without_compiled_code_torch_is_measured_and_the_reason_said(tmp_path):
    file = tmp_path / "bench.json"
    answer = coterie("bench", "--quick", "--models", "linear", "--json", file)
    assert answer.code == 0, answer
    assert "No compiled code for linear: the compiled trainer was not built" in plain(answer.out)
    kept = json.loads(file.read_text())
    assert kept["level"] is None
    assert kept["linear"]["train_torch_samples_per_second"] > 0
    assert not any("native_samples" in name for name in kept["linear"])
    assert kept[ROUND].keys() == {"1 thread"}
    assert kept[ROUND]["1 thread"]["compiled_share_of_cpu_time"] is None


def test_the_full_round_is_that_of_the_paper():
    described = describe_round(round_config(FULL))
    assert described == "dac round, cifar-cnn, 100 peers, 400/100 images, E=3, m=5"
    assert FULL.repeats >= 8


def test_what_cannot_work_is_refused_before_measuring(tmp_path):
    refused(coterie("bench", "--models", "cifar"), 2, "cifar", "Did you mean 'cifar-cnn'?")
    missing = tmp_path / "nowhere" / "bench.json"
    refused(coterie("bench", "--json", missing), 4, missing.name, "--json")
    refused(coterie("bench", "--json", tmp_path), 4, "it is a folder", "--json")


@pytest.mark.parametrize("is_terminal", [True, False])
def test_progress_is_a_bar_on_a_terminal_and_lines_elsewhere(is_terminal):
    console = Console(file=io.StringIO(), force_terminal=is_terminal, width=100)
    with show_progress(4, console) as tick:
        for part in ("mlp", "mlp", "linear"):
            tick(part)
        shown = console.file.getvalue()
    if is_terminal:
        assert "3/4" in shown
    else:
        assert shown == "Measuring mlp\nMeasuring linear\n"

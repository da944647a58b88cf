"""Strategies of a user's own file on the command line: run, resumed, and looked at without it."""

from __future__ import annotations

import hashlib
import json
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import coterie, plain, refused

from coterie.errors import Interrupted
from coterie.experiments.experiment import Experiment
from coterie.experiments.presets import find_preset
from coterie.experiments.run_folder import RunFolder
from coterie.experiments.user_strategies import load_strategies
from coterie.runtime.round_metrics import RoundMetrics
from coterie.strategies import STRATEGIES

STRATEGY = '''
from dataclasses import dataclass
from coterie.strategies.parts.sampling import sample_uniformly
from coterie.strategies.requests import Fetch, Merge, Plan, Train
from coterie.strategies.strategy import Me, Strategy

@dataclass
class Mine(Strategy):
    """Averages with whom it meets."""

    fetches: int = 2
    name = "mine"
    summary = "averages"

    def round(self, me: Me) -> Plan:
        offers = yield Fetch(sample_uniformly(me.rng, me.others, self.fetches))
        known = [me.peer, *(offer.peer for offer in offers)]
        yield Merge({peer: 1 / len(known) for peer in known})
        yield Train()
'''
RUN = ("--peers", 8, "--rounds", 2, "--threads", 1)


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """Forget between tests, and between commands that say so, what was loaded."""
    path = list(sys.path)
    yield
    forget()
    sys.path[:] = path


def forget() -> None:
    STRATEGIES.pop("mine", None)
    sys.modules.pop("my_strategy", None)


@pytest.fixture
def file(tmp_path) -> Path:
    path = tmp_path / "my_strategy.py"
    path.write_text(STRATEGY)
    return path


def run(file: Path, folder: Path, *more: object):
    words = ("--strategy-file", file, "--strategy", "mine,local", *more, "--out", folder)
    return coterie("run", "digits", *RUN, *words)


@pytest.fixture
def finished(file, tmp_path) -> Path:
    """Return the folder of finished runs whose strategy nobody knows any more."""
    done = run(file, tmp_path / "out")
    assert done.code == 0, done.err
    forget()
    file.unlink()
    return tmp_path / "out"


def test_a_run_notes_where_its_strategy_is_defined(file, tmp_path):
    assert run(file, tmp_path / "out").code == 0
    noted = json.loads((tmp_path / "out" / "mine-seed0" / "strategy.json").read_text())
    assert noted == {
        "strategy": "mine",
        "module": "my_strategy",
        "qualified_name": "Mine",
        "file": str(file),
        "sha256": hashlib.sha256(STRATEGY.encode()).hexdigest(),
    }
    assert not (tmp_path / "out" / "local-seed0" / "strategy.json").exists()


def test_finished_runs_are_looked_at_without_the_code(finished, tmp_path):
    page = tmp_path / "page.html"
    for words in (
        ("report", finished, "-o", page),
        ("compare", finished),
        ("analyse", finished),
        ("figures", finished),
        ("resume", finished),
    ):
        done = coterie(*words)
        assert done.code == 0, (words, done.err)
        assert "There is no strategy" not in done.err
        if words[0] in ("compare", "resume"):
            assert "mine" in done.out
    assert "mine" in page.read_text()


def stopped(file: Path, folder: Path) -> None:
    """Leave a run behind that was stopped after its first round."""
    load_strategies([str(file)])
    changes = {"peers.count": 8, "rounds": 2, "checkpoint_every": 1}

    def stop(run: RunFolder, now: RoundMetrics) -> None:
        if now.round == 1:
            signal.raise_signal(signal.SIGINT)

    configs = find_preset("digits").runs(["mine"], [0], changes)
    with pytest.raises(Interrupted):
        Experiment.create(folder, configs).run(threads=1, on_round=stop, tell=len)
    forget()


def test_resume_says_which_file_and_takes_it(file, tmp_path):
    folder = tmp_path / "out"
    stopped(file, folder)
    message = refused(coterie("resume", folder), 2, "'mine'", f"the class Mine of {file}")
    assert message.endswith(f"Type: coterie resume {folder} --strategy-file {file}")
    done = coterie("resume", folder, "--strategy-file", file, "--threads", 1)
    assert done.code == 0, done.err
    forget()
    whole = ("--strategy-file", file, "--strategy", "mine", "--set", "checkpoint_every=1")
    assert coterie("run", "digits", *RUN, *whole, "--out", tmp_path / "whole").code == 0
    for name in ("metrics.parquet", "models.safetensors"):
        one, two = (tmp_path / part / "mine-seed0" / name for part in ("out", "whole"))
        assert one.read_bytes() == two.read_bytes()


def test_a_file_that_has_changed_meanwhile_is_told(file, tmp_path):
    folder = tmp_path / "out"
    stopped(file, folder)
    file.write_text(STRATEGY + "\n# another version\n")
    done = coterie("resume", folder, "--strategy-file", file, "--threads", 1)
    assert done.code == 0, done.err
    assert "my_strategy.py has changed since mine-seed0 was started" in plain(done.err)


def test_nothing_is_loaded_because_a_folder_says_so(file, tmp_path, monkeypatch):
    """The file exists, and the folder names it; still only the user's word counts."""
    monkeypatch.chdir(tmp_path)  # where the report goes
    folder = tmp_path / "out"
    stopped(file, folder)
    file.write_text(f"open({str(tmp_path / 'loaded')!r}, 'w')\n" + STRATEGY)
    for command in ("resume", "report", "analyse", "run"):
        coterie(command, folder)
        coterie(command, folder / "mine-seed0")
    assert not (tmp_path / "loaded").exists()


def test_an_older_folder_does_not_know_the_file(file, tmp_path):
    folder = tmp_path / "out"
    stopped(file, folder)
    (folder / "mine-seed0" / "strategy.json").unlink()
    refused(coterie("resume", folder), 2, "'mine'", "--strategy-file FILE.py")


def test_a_configuration_of_ones_own_strategy(finished, tmp_path):
    config = finished / "mine-seed0" / "config.yaml"
    refused(
        coterie("run", config), 2, "'mine'", f"coterie run {config} --strategy-file", "any more"
    )
    file = tmp_path / "my_strategy.py"
    file.write_text(STRATEGY)
    done = coterie("run", config, "--strategy-file", file, "--out", tmp_path / "again")
    assert done.code == 0, done.err
    (again,) = Experiment.open(tmp_path / "again").runs
    models = [run / "models.safetensors" for run in (config.parent, again.folder)]
    assert models[0].read_bytes() == models[1].read_bytes()


def test_without_names_it_is_compared_with_the_presets_own(file, tmp_path):
    words = ("--strategy-file", f"{file}:Mine", "--out", tmp_path / "out")
    done = coterie("run", "digits", *RUN, "--set", "rounds=0", *words)
    assert done.code == 0, done.err
    names = [run.config.label for run in Experiment.open(tmp_path / "out").runs]
    assert names == ["local", "random", "dac", "oracle", "kin", "mine"]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (None, ("does not exist", "FILE.py")),
        ("1 +", ("failed in line 1", "SyntaxError")),
        ("import nowhere_at_all", ("failed in line 1", "nowhere_at_all")),
        ("x = 1\ny = 1 / 0", ("failed in line 2", "ZeroDivisionError")),
        ("x = 1", ("the file has no strategy", "coterie.strategies.Strategy")),
        (STRATEGY.replace('"mine"', '"random"'), ("another strategy has the name 'random'",)),
    ],
)
def test_a_file_that_cannot_be_used(tmp_path, text, parts):
    file = tmp_path / "my_strategy.py"
    if text is not None:
        file.write_text(text)
    answer = run(file, tmp_path / "out")
    assert answer.code == 2
    assert all(part in plain(answer.err) for part in ("--strategy-file", *parts))
    assert "Traceback" not in answer.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("text", ["{}", "{}:Mine"])
def test_a_file_can_be_named_among_the_strategies(file, tmp_path, text):
    words = ("--strategy", f"local,{text.format(file)}", "--out", tmp_path / "out")
    done = coterie("run", "digits", *RUN, *words)
    assert done.code == 0, done.err
    names = [run.config.label for run in Experiment.open(tmp_path / "out").runs]
    assert names == ["local", "mine"]


def test_real_peers_load_no_file(file):
    answer = coterie("swarm", "--strategy", file)
    refused(answer, 2, f"coterie run --strategy {file}")


def test_a_package_makes_its_strategies_known(file, tmp_path, monkeypatch):
    """An entry point, as `pip install` leaves it on the path."""
    about = tmp_path / "farms-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Name: farms\nVersion: 1.0\n")
    entries = "[coterie.strategies]\nmine = my_strategy:Mine\nold = my_strategy:Gone\n"
    (about / "entry_points.txt").write_text(entries)
    monkeypatch.syspath_prepend(tmp_path)
    done = coterie("run", "digits", *RUN, "--strategy", "mine", "--out", tmp_path / "out")
    assert done.code == 0, done.err
    assert "'old' of my_strategy:Gone cannot be loaded" in done.err


def test_a_file_is_no_strategy(file, tmp_path):
    refused(coterie("run", "digits", "--strategy-file", "mine"), 2, "mine is not a Python file")
    refused(
        coterie("run", "digits", "--strategy-file", f"{file}:Nope"),
        2,
        "the file has no strategy Nope",
    )


def test_a_run_that_is_copied_elsewhere(finished, tmp_path):
    copied = shutil.move(finished, tmp_path / "elsewhere")
    assert coterie("report", copied, "-o", tmp_path / "page.html").code == 0

"""An experiment grows: runs are added to its list, and none that is there is lost or replaced."""

from __future__ import annotations

import pytest
import yaml
from commands import contents

from coterie.errors import ConfigError
from coterie.experiments.experiment import Experiment
from coterie.experiments.presets import find_preset

CHANGES = {"peers.count": 8, "rounds": 1}


def configs(label: str, *seeds: int):
    return find_preset("digits").runs([label], seeds, CHANGES)


def listed(folder):
    return yaml.safe_load((folder / "experiment.yaml").read_text())["runs"]


def test_added_runs_are_listed_behind_the_others(tmp_path):
    folder = tmp_path / "out"
    Experiment.create(folder, configs("local", 0))
    first, second = Experiment.open(folder), Experiment.open(folder)
    first.add(configs("random", 0, 1))
    # This one was opened before the other added something.
    second.add(configs("oracle", 5))
    names = ["local-seed0", "random-seed0", "random-seed1", "oracle-seed5"]
    assert listed(folder) == names
    assert [run.folder.name for run in Experiment.open(folder).runs] == names
    assert [run.folder.name for run in second.runs] == ["local-seed0", "oracle-seed5"]
    assert Experiment.open(folder).runs[3].config.seed == 5


def test_a_run_that_is_there_is_not_replaced(tmp_path):
    folder = tmp_path / "out"
    experiment = Experiment.create(folder, configs("local", 0))
    before = contents(folder)
    with pytest.raises(ConfigError, match="already has a run local-seed0"):
        experiment.add(configs("local", 0))
    with pytest.raises(ConfigError, match="appears 2 times"):
        experiment.add(configs("local", 3, 3))
    experiment.add([])
    assert {name: text for name, text in contents(folder).items() if name != ".lock"} == before

"""Two processes must not run the same run at the same time."""

from __future__ import annotations

import subprocess
import sys

import pytest

from coterie.errors import StorageError
from coterie.experiments.experiment import Experiment
from coterie.experiments.presets import find_preset
from coterie.storage.files import LOCK

HOLD = """
import sys, time
from pathlib import Path
from coterie.storage.files import lock_folder
with lock_folder(Path(sys.argv[1])):
    print("locked", flush=True)
    time.sleep(60)
"""


def test_a_run_that_is_running_is_left_alone(tmp_path):
    changes = {"peers.count": 4, "rounds": 1, "strategy.fetches": 1}
    configs = find_preset("digits").runs(["random"], [0], changes)
    experiment = Experiment.create(tmp_path / "out", configs)
    folder = experiment.runs[0].folder
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)], stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout.readline() == "locked\n"
        with pytest.raises(StorageError, match="Another process"):
            experiment.run(threads=1)
        holder.kill()
    # The lock dies with its holder, though its file stays.
    assert (folder / LOCK).exists()
    (outcome,) = experiment.run(threads=1)
    assert outcome.label == "random"

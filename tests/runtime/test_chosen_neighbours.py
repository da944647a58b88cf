"""Lists of neighbours that strategies keep are recorded against the true clusters."""

from __future__ import annotations

import numpy as np
import pytest
from small_runs import options_for

from coterie.runtime.exchange_log import chosen_statistics
from coterie.runtime.loop import run_to_end
from coterie.runtime.recorder import Recorder
from coterie.strategies import STRATEGIES, Strategy, make_strategy
from coterie.strategies.pens import PENS
from coterie.strategies.random import Random

PEER_STRATEGIES = [name for name, kind in STRATEGIES.items() if issubclass(kind, Strategy)]


def test_counted_by_hand():
    chosen = [np.array([1, 2, 3]), None, np.array([], np.int64), np.array([2])]
    columns = chosen_statistics(chosen, np.array([0, 0, 0, 1]))
    assert {name: values.tolist() for name, values in columns.items()} == {
        "peer": [0, 2, 3],
        "cluster": [0, 0, 1],
        "num_chosen": [3, 0, 1],
        "num_same_cluster": [2, 0, 0],
        "num_true": [2, 2, 0],
    }


def test_what_pens_keeps_is_recorded_after_every_round(make_simulation):
    pens = {"fetches": 1, "samples": 3, "samplings": 4, "exploration_rounds": 2}
    strategies = []

    def make() -> PENS:
        strategies.append(PENS(**pens, exploration_epochs=1))
        return strategies[-1]

    recorder = Recorder()
    with make_simulation(make) as simulation:
        run_to_end(simulation, recorder)
    rows = recorder.table("chosen_neighbours").to_pylist()
    assert [row["round"] for row in rows] == [number for number in (1, 2, 3) for _ in range(6)]
    for row, strategy in zip(rows[-6:], strategies[-6:], strict=True):
        listed = strategy.neighbours()
        assert len(listed) > 0
        assert row["num_chosen"] == len(listed)
        assert row["num_same_cluster"] == sum(listed % 2 == row["peer"] % 2)
        assert row["num_true"] == 2


def test_without_lists_there_is_no_table(make_simulation, tmp_path):
    recorder = Recorder(tmp_path)
    with make_simulation(lambda: Random(fetches=2)) as simulation:
        run_to_end(simulation, recorder)
    assert recorder.table("chosen_neighbours").num_rows == 0
    assert not (tmp_path / "chosen_neighbours.parquet").exists()


@pytest.mark.parametrize("name", PEER_STRATEGIES)
def test_nobody_is_its_own_neighbour(make_simulation, name):
    """Whatever a strategy states are numbers of other peers, each once."""
    with make_simulation(lambda: make_strategy(name, options_for(name, 2))) as simulation:
        while not simulation.finished:
            for peer, listed in enumerate(simulation.advance().chosen):
                if listed is not None:
                    assert set(listed.tolist()) <= set(range(6)) - {peer}
                    assert len(np.unique(listed)) == len(listed)

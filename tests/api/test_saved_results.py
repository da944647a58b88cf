"""Simulations with a folder: they are saved, resumed, loaded, and read by the commands."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from commands import coterie as command
from commands import plain
from torch import nn

import coterie
from coterie.runtime.run_tables import SCHEMAS

RNG = np.random.default_rng(0)
PEERS = [
    ((inputs := RNG.normal(size=(30, 4)).astype(np.float32)), (inputs[:, 0] > 0).astype(int))
    for _ in range(5)
]
TASK = coterie.Task("cross-entropy", metrics=["auc", "f1"])


def build() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2))


def run(strategy="kin", **more) -> coterie.Result:
    settings = {"rounds": 12} | more.pop("settings", {})
    return coterie.simulate(build, PEERS, strategy, settings, **{"task": TASK, **more})


class StopAfter(coterie.Callback):
    """Ends the program in a round."""

    def __init__(self, number: int) -> None:
        self.number = number

    def on_round(self, now) -> None:
        if now.number == self.number:
            raise KeyboardInterrupt


def assert_same_columns(one: dict[str, list], other: dict[str, list]) -> None:
    assert one.keys() == other.keys()
    for name, values in one.items():
        np.testing.assert_array_equal(values, other[name], err_msg=name)


def assert_same(one: coterie.Result, other: coterie.Result) -> None:
    np.testing.assert_array_equal(one.models, other.models)
    for name in SCHEMAS.keys() - {"timings"}:
        assert_same_columns(one.tables[name].to_pydict(), other.tables[name].to_pydict())
    assert repr(one) == repr(other)


def test_a_run_with_a_folder_has_the_same_result(tmp_path):
    assert_same(run(), run(out=tmp_path / "run"))


@pytest.mark.parametrize("strategy", ["kin", "dac", "fedavg"])
@pytest.mark.parametrize("number", [0, 5, 11])
def test_an_interrupted_run_is_resumed_with_the_same_result(tmp_path, strategy, number):
    with pytest.raises(KeyboardInterrupt):
        run(strategy, out=tmp_path / "run", callbacks=[StopAfter(number)])
    assert_same(run(strategy), run(strategy, out=tmp_path / "run", resume=True))


def test_resuming_a_finished_run_loads_it(tmp_path):
    seen = []
    first = run(out=tmp_path / "run")
    again = run(out=tmp_path / "run", resume=True, on_round=seen.append)
    assert seen == []
    assert_same(first, again)


def test_resume_starts_a_run_that_does_not_exist_yet(tmp_path):
    assert_same(run(), run(out=tmp_path / "new" / "run", resume=True))


def test_a_saved_result_is_loaded_whole(tmp_path):
    saved = run()
    saved.save(tmp_path / "saved")
    loaded = coterie.Result.load(tmp_path / "saved", build)
    assert_same(saved, loaded)
    assert {name: values.tolist() for name, values in saved.test_metrics.items()} == {
        name: values.tolist() for name, values in loaded.test_metrics.items()
    }
    np.testing.assert_array_equal(saved.predict(2, PEERS[2][0]), loaded.predict(2, PEERS[2][0]))


def test_the_commands_read_runs_of_python(tmp_path):
    run(out=tmp_path / "kin")
    run("local").save(tmp_path / "local")
    folders = tmp_path / "kin", tmp_path / "local"
    compared = plain(command("compare", *folders).out)
    assert "python: test accuracy %" in compared
    assert "AUC %" in compared
    assert command("report", *folders, "-o", tmp_path / "report.html").code == 0
    assert coterie.load_run(folders[0]).label == "kin"


@pytest.mark.parametrize("verb", ["resume", "run"])
def test_the_commands_say_where_such_a_run_continues(tmp_path, verb):
    with pytest.raises(KeyboardInterrupt):
        run(out=tmp_path / "run", callbacks=[StopAfter(3)])
    answer = command(verb, tmp_path / "run")
    assert answer.code == 2
    assert "coterie.simulate(…, out=FOLDER, resume=True)" in plain(answer.err)


SLIPS = {
    "the folder has a run": ({}, "Add resume=True to continue it"),
    "other settings": (
        {"resume": True, "settings": {"rounds": 3}},
        "it has other settings of rounds",
    ),
    "another score": (
        {"resume": True, "task": coterie.Task("cross-entropy", score="f1")},
        "other settings of task",
    ),
    "another strategy": (
        {"resume": True, "strategy": "dac"},
        "other settings of label, strategy",
    ),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_a_folder_in_use_is_never_overwritten(tmp_path, slip):
    run("local", out=tmp_path / "run")
    before = sorted((path, path.stat().st_mtime_ns) for path in tmp_path.rglob("*"))
    more, message = SLIPS[slip]
    with pytest.raises(coterie.CoterieError, match=message):
        run(**{"strategy": "local", "out": tmp_path / "run"} | more)
    assert sorted((path, path.stat().st_mtime_ns) for path in tmp_path.rglob("*")) == before


def test_other_files_are_never_mixed_with_a_run(tmp_path):
    (tmp_path / "thesis.tex").write_text("important")
    with pytest.raises(coterie.CoterieError, match="not empty, and holds no run"):
        run(out=tmp_path)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"resume": True}, "resume=True needs the folder"),
        ({"out": 3}, "out is 3"),
        ({"callbacks": [print]}, "callbacks has <built-in function print>"),
        ({"callbacks": [coterie.Callback]}, "must be a list of objects derived"),
    ],
)
def test_wrong_arguments_are_named(more, message):
    with pytest.raises(coterie.CoterieError, match=message):
        run(**more)


def test_a_result_without_its_function_says_what_is_missing(tmp_path):
    run("local").save(tmp_path / "saved")
    loaded = coterie.Result.load(tmp_path / "saved")
    with pytest.raises(coterie.CoterieError, match=r"Result.load\(path, build\)"):
        loaded.module(0)
    shutil.rmtree(tmp_path / "saved")
    assert loaded.test_score.shape == (5,), "everything was read"


def test_predictions_are_those_that_were_tested():
    held_out = [
        coterie.PeerData((x[:10], y[:10]), (x[10:20], y[10:20]), (x[20:], y[20:])) for x, y in PEERS
    ]
    result = coterie.simulate(build, held_out, settings={"rounds": 3}, task=TASK)
    for peer, data in enumerate(held_out):
        inputs, targets = data.test
        reached = (result.predict(peer, inputs).argmax(axis=1) == targets).mean()
        assert reached == result.test_score[peer]
        assert not result.module(peer).training


def test_callbacks_follow_the_whole_run():
    heard = []

    class Listener(coterie.Callback):
        def on_start(self, settings):
            heard.append(settings["rounds"])

        def on_round(self, now):
            heard.append(now.number)

        def on_end(self, result):
            heard.append(type(result).__name__)

    run(settings={"rounds": 2}, callbacks=[Listener()])
    assert heard == [2, 0, 1, 2, "Result"]

"""What a node needs of a run, though it has none of the user's files."""

from __future__ import annotations

import hashlib
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from own_tables import write_farms

from coterie.cluster.shipping import RunParcel, pack_run
from coterie.cluster.source_files import collect_source_files
from coterie.data.peer_datasets import PeerDatasets
from coterie.errors import ConfigError
from coterie.experiments.config import RunConfig, apply_changes, build_model, make_datasets
from coterie.experiments.presets import find_preset
from coterie.experiments.presets.choose_preset import choose_preset
from coterie.experiments.presets.own_files import FileOptions
from coterie.experiments.user_models import USER_MODELS, load_model
from coterie.experiments.user_strategies import load_strategies
from coterie.experiments.user_tasks import USER_TASKS, load_task
from coterie.models.fitting_models import OWN_MODELS
from coterie.strategies import STRATEGIES, make_strategy
from coterie.tasks.task_settings import OWN_TASKS

FILES = {
    "sizes.py": "HIDDEN = 7\n",
    "my_model.py": """
from torch import nn
from sizes import HIDDEN

def build():
    return nn.Sequential(nn.Linear(3, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 2))
""",
    "my_task.py": "import coterie\n\ntask = coterie.Task('cross-entropy', score='auc')\n",
    "my_strategy.py": """
from coterie.strategies.random import Random

class Mine(Random):
    name = "mine"
""",
}


@pytest.fixture
def source(tmp_path):
    """Write and load files of a user; afterwards forget them."""
    folder, path = tmp_path / "source", list(sys.path)
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text)
    yield folder
    sys.path[:] = path
    for known in (OWN_MODELS, OWN_TASKS, USER_TASKS.known):
        known.clear()
    for name in FILES:
        sys.modules.pop(name.removesuffix(".py"), None)


def config_of_farms(source: Path) -> RunConfig:
    """Return a run on a table with a model, a task and a strategy of the user's own."""
    load_strategies([str(source / "my_strategy.py")])
    model = load_model(f"{source / 'my_model.py'}:build")
    task = load_task(f"{source / 'my_task.py'}:task")
    table = write_farms(source / "farms.csv")
    options = FileOptions(peers_by="farm", label="crop", features=("rain", "soil"))
    chosen = choose_preset(str(table), options, model, None, lambda text: None)
    return chosen.runs(["mine"], [3], {"task.file": task, "strategy.fetches": 1})[0]


def describe(config: RunConfig, data: PeerDatasets) -> dict[str, object]:
    """Return what a run is made of."""
    module = build_model(config, data.num_outputs)
    return {
        "inputs": hashlib.sha256(data.pools[0].only_inputs.tobytes()).hexdigest(),
        "peers": data.peer_names,
        "score": data.task.score.name,
        "parameters": [tuple(each.shape) for each in module.parameters()],
        "strategy": type(make_strategy("mine", {})).__name__,
    }


def test_a_node_needs_no_files_of_the_user(engine, source, tmp_path):
    import ray

    config = config_of_farms(source)
    parcel, expected = pack_run(config), describe(config, make_datasets(config))
    shutil.rmtree(source)

    def describe_on_node(parcel: RunParcel, folder: Path) -> dict[str, object]:
        opened = parcel.open_on_node(folder)
        return describe(opened.config, opened.make_datasets())

    # Nodes do not have the tests, so this function is sent to them.
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    try:
        call = ray.remote(describe_on_node).options(num_cpus=1)
        assert ray.get(call.remote(parcel, tmp_path)) == expected
    finally:
        ray.cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    assert expected["parameters"][0] == (7, 3)
    assert expected["score"] == "AUC"
    assert expected["peers"] == ("east", "north", "west")


def test_samples_are_put_once_and_are_read_only(engine):
    import ray

    first, second = find_preset("digits").runs(["random", "dac"], [0], {})
    parcel = pack_run(first)
    assert parcel.datasets == pack_run(second).datasets
    assert not ray.get(parcel.datasets["digits"]).inputs.flags.writeable
    here, there = make_datasets(first), parcel.make_datasets()
    here.load_step(0), there.load_step(0)
    assert (here.pools[0].only_inputs == there.pools[0].only_inputs).all()


def test_other_versions_are_refused(engine, tmp_path):
    parcel = pack_run(find_preset("digits").runs(["random"], [0], {})[0])
    other = replace(parcel, versions={**parcel.versions, "torch": "1.0"})
    with pytest.raises(ConfigError, match=r"This node has torch .* instead of 1\.0"):
        other.open_on_node(tmp_path)


def test_a_strategy_that_is_in_no_file_is_refused():
    kind = type("Loose", (STRATEGIES["random"],), {"name": "loose", "__module__": "__main__"})
    STRATEGIES["loose"] = kind
    config = find_preset("digits").runs(["random"], [0], {})[0]
    loose = config.model_copy(update={"strategy": {"name": "loose"}})
    with pytest.raises(ConfigError, match="'loose' is not defined in a file"):
        collect_source_files(loose)


def test_python_itself_and_packages_are_not_sent(source):
    """A user's files may lie above an environment."""
    sys.path.insert(0, str(source))
    config = find_preset("digits").runs(["random"], [0], {})[0]
    name = load_model(f"{source / 'my_model.py'}:build")
    assert name in USER_MODELS.known
    changed = apply_changes(config, {"model.name": name})
    names = [each for each, _ in collect_source_files(changed).contents]
    assert names == ["0/my_model.py", "0/sizes.py"]

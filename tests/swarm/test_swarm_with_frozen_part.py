"""Real peers send what learns, and no more: bit for bit as the simulator says.

With a frozen backbone these are adapters and a head; with local buffers, all but the buffers.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import yaml
from safetensors import safe_open

from coterie.experiments.config import make_scenario
from coterie.experiments.presets import find_preset
from coterie.models.exchanged_part import ExchangedPart
from coterie.models.shared_builder import SharedBuilder
from coterie.peer.peer_run import MODELS, RUN
from coterie.runtime.run_tables import read_table
from coterie.simulation.simulation import Simulation
from coterie.storage.tensor_files import map_tensor
from coterie.strategies import make_strategy
from coterie.swarm.check_settings import adapt_for_real_peers
from coterie.swarm.peer_folders import create_peer_folders
from coterie.swarm.supervisor import Supervisor

NUM_PEERS = 4
MODEL = '''
import torch
from torch import nn


class Adapted(nn.Module):
    """A frozen linear layer plus a product of two small trained matrices."""

    def __init__(self, width, rank=2):
        super().__init__()
        self.frozen = nn.Linear(width, width).requires_grad_(False)
        self.a = nn.Parameter(torch.randn(rank, width) / width)
        self.b = nn.Parameter(torch.zeros(width, rank))

    def forward(self, inputs):
        return self.frozen(inputs) + inputs @ self.a.T @ self.b.T


def build():
    backbone = nn.Sequential(nn.BatchNorm1d(64), nn.Linear(64, 64), nn.Tanh())
    backbone.requires_grad_(False).half()
    return nn.Sequential(nn.Flatten(), Halved(backbone), Adapted(64), nn.Tanh(), nn.Linear(64, 10))


def normalised():
    return nn.Sequential(
        nn.Flatten(), nn.Linear(64, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 10)
    )


class Halved(nn.Module):
    """A backbone in float16."""

    def __init__(self, backbone):
        super().__init__()
        self.backbone = backbone

    def forward(self, inputs):
        return self.backbone(inputs.half()).float()
'''


EARLY = {"strategy.samples": 3, "strategy.exploration_rounds": 2}
CASES = {
    "pens": ("build", EARLY),
    "kin normalised": ("normalised", {}),
    "dac normalised": ("normalised", {"strategy.metric": "cosine-gradients"}),
    "pens normalised": ("normalised", EARLY),
}


@pytest.fixture(scope="module", params=CASES)
def run(request, tmp_path_factory):
    """Return the settings, the folders of finished peers, and the builder of their model."""
    function, changes = CASES[request.param]
    changes = {
        **changes,
        "peers.count": NUM_PEERS,
        "peers.train_size": 16,
        "peers.validation_size": 8,
        "rounds": 3,
    }
    if function == "normalised":
        changes |= {"training.buffers": "local", "initialisation": "independent"}
    (config,) = find_preset("digits").runs([request.param.partition(" ")[0]], [3], changes)
    config, _ = adapt_for_real_peers(config, {}, own_pace=False)
    scenario = make_scenario(config)
    folder = tmp_path_factory.mktemp("swarm")
    (folder / "backbone.py").write_text(MODEL)
    folders = create_peer_folders(folder, config, scenario, {}, aligned=True)
    for each in folders:
        (each / "backbone.py").write_text(MODEL)
        settings = yaml.safe_load((each / "peer.yaml").read_text())
        settings["model"] = {"function": f"backbone:{function}"}
        (each / "peer.yaml").write_text(yaml.safe_dump(settings))
    with Supervisor(folders, print) as swarm:
        while swarm.running:
            swarm.supervise(0.25)
        assert all(peer.has_finished for peer in swarm.peers), swarm.errors
    return config, folders, _load(folder / "backbone.py", function)


def _load(path: Path, function: str):
    spec = importlib.util.spec_from_file_location("backbone", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, function)


def test_real_peers_end_with_the_bits_of_the_simulator(run):
    config, folders, build = run
    with Simulation(
        make_scenario(config),
        build,
        lambda: make_strategy(config.strategy["name"], config.strategy_options()),
        config,
    ) as simulation:
        while not simulation.finished:
            simulation.advance()
        expected = simulation.state.current.copy()
    for number, folder in enumerate(folders):
        mine = map_tensor(folder / RUN / MODELS, "last")[0]
        np.testing.assert_array_equal(mine, expected[number])
    assert not np.array_equal(expected[0], expected[1])


def test_only_what_learns_travels(run):
    config, folders, build = run
    adapters = 4 * (2 * 64 + 64 * 2 + 64 * 10 + 10)
    parameters = 4 * (64 * 16 + 16 + 2 * 16 + 16 * 10 + 10)
    is_local = config.training.buffers == "local"
    layout = SharedBuilder(build, 3).layout
    size = ExchangedPart(layout, has_local_buffers=is_local).layout.num_bytes
    assert size == (parameters if is_local else adapters)
    for folder in folders:
        sizes = read_table(folder / RUN, "exchanges")["bytes"].to_numpy()
        # DAC by gradients also sends two vectors of updates; messages are short.
        assert len(sizes)
        assert (sizes % size < 200).all()
        assert (sizes >= size).all()


def test_exported_models_name_their_frozen_part(run):
    _, folders, build = run
    with safe_open(folders[0] / RUN / MODELS, framework="numpy") as file:
        assert file.metadata().get("frozen", "") == SharedBuilder(build, 3).frozen.digest

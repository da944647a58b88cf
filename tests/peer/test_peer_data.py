"""A peer's own data and model: `PeerDatasets` of one peer."""

import numpy as np
import pytest

from coterie.data.peer_arrays import PeerData
from coterie.errors import ConfigError, DataError
from coterie.peer.peer_config import DataStep, PeerConfig, PeerModelSettings
from coterie.peer.peer_data import LocalPeerData, model_builder, read_local_data


def part(count, start=0, classes=3):
    inputs = np.arange(start, start + count * 4, dtype=np.float32).reshape(count, 4)
    return inputs, np.arange(count) % classes


def data(start=0, **kinds):
    return PeerData(part(6, start, **kinds), part(3, start, **kinds), part(3, start, **kinds))


def test_data_change_with_the_rounds():
    datasets = LocalPeerData([data(0), data(100), data(200)], [0, 2, 5])
    assert [datasets.step_of(number) for number in range(7)] == [0, 0, 1, 1, 1, 2, 2]
    for step, first in enumerate((0, 100, 200)):
        (views,) = datasets.load_step(step)
        pool = datasets.pools[views.train.pool]
        assert pool.inputs[views.train.rows()][0, 0] == first
        assert len(views.validation) == len(views.test) == 3


def test_data_of_another_kind_are_refused():
    values = PeerData(*[(inputs, labels.astype(np.float32)) for inputs, labels in [part(6)] * 3])
    with pytest.raises(DataError, match="round 4 on differ from those of round 0"):
        LocalPeerData([data(), values], [0, 4])


def test_labels_of_all_steps_must_fit_the_model():
    datasets = LocalPeerData([data(), data(classes=6)], [0, 1])
    settings = PeerModelSettings(function="x:y")
    assert datasets.num_outputs == 6
    with pytest.raises(
        ConfigError, match=r"x:y cannot be found.*Expected a function of a module in"
    ):
        model_builder(settings, datasets, __import__("pathlib").Path("/"))


def read(step: DataStep, folder, model="fashion-cnn"):
    config = PeerConfig(data=(step,), model=PeerModelSettings(name=model))
    return read_local_data(config, folder)


def save(path, **arrays):
    np.savez(path, **arrays)
    return DataStep(file=path.name)


def test_a_file_with_a_part_for_validation(tmp_path):
    (train, labels), (held, held_labels) = part(8), part(5, 1000)
    step = save(
        tmp_path / "own.npz",
        train_inputs=train, train_targets=labels, validation_inputs=held,
        validation_targets=held_labels, test_inputs=train, test_targets=labels,
    )  # fmt: skip
    datasets = read(step, tmp_path)
    (views,) = datasets.load_step(0)
    pool = datasets.pools[0]
    np.testing.assert_array_equal(pool.inputs[views.train.rows()], train)
    np.testing.assert_array_equal(pool.inputs[views.validation.rows()], held)
    np.testing.assert_array_equal(pool.targets[views.validation.rows()], held_labels)


def test_without_one_a_fifth_is_held_out_and_images_are_scaled(tmp_path):
    images = np.tile(np.arange(100, dtype=np.uint8)[:, None, None], (1, 8, 8))
    step = save(tmp_path / "own.npz", train_images=images, train_labels=np.arange(100) % 2)
    datasets = read(step, tmp_path)
    (views,) = datasets.load_step(0)
    assert [len(views.train), len(views.validation), len(views.test)] == [64, 16, 20]
    rows = np.concatenate([views.train.rows(), views.validation.rows(), views.test.rows()])
    seen = datasets.pools[0].inputs[rows][:, 0, 0, 0]
    np.testing.assert_allclose(np.sort(seen), np.arange(100) / 127.5 - 1, rtol=1e-6)


def test_half_a_part_for_validation_is_refused(tmp_path):
    inputs, labels = part(8)
    step = save(
        tmp_path / "own.npz", train_inputs=inputs, train_targets=labels, validation_inputs=inputs
    )
    with pytest.raises(DataError, match="validation_targets"):
        read(step, tmp_path)


def test_functions_beside_the_settings(tmp_path):
    (tmp_path / "my_ward.py").write_text(
        "import numpy as np\nfrom torch import nn\nimport coterie\n"
        "def data():\n"
        "    part = (np.zeros((4, 2), 'float32'), np.array([0, 1, 0, 1]))\n"
        "    return coterie.PeerData(part, part, part)\n"
        "def model():\n    return nn.Linear(2, 2)\n"
        "def wrong():\n    return 3\n"
        "number = 3\n"
    )
    datasets = read(DataStep(function="my_ward:data"), tmp_path)
    assert datasets.input_shape == (2,)
    build = model_builder(PeerModelSettings(function="my_ward:model"), datasets, tmp_path)
    assert build() is not build()
    with pytest.raises(ConfigError, match=r"returned int\. Expected a coterie"):
        read(DataStep(function="my_ward:wrong"), tmp_path)
    with pytest.raises(ConfigError, match="returns no new torch module"):
        model_builder(PeerModelSettings(function="my_ward:wrong"), datasets, tmp_path)
    with pytest.raises(ConfigError, match="is not a function"):
        read(DataStep(function="my_ward:number"), tmp_path)


def test_a_task_of_the_command_line_is_refused(tmp_path):
    inputs, labels = part(8)
    step = save(tmp_path / "own.npz", train_inputs=inputs, train_targets=labels)
    model = PeerModelSettings(name="fashion-cnn")
    config = PeerConfig(data=(step,), model=model, task={"file": "mine.py:task"})
    with pytest.raises(ConfigError, match=r"is for coterie run.*task\.function"):
        read_local_data(config, tmp_path)


def test_more_labels_than_outputs_are_refused(tmp_path):
    images = np.zeros((40, 8, 8), np.uint8)
    step = save(tmp_path / "own.npz", train_images=images, train_labels=np.arange(40) % 4)
    datasets = read(step, tmp_path)
    with pytest.raises(
        ConfigError, match=r"model.outputs is 3, but the labels of this peer go up to 3"
    ):
        model_builder(PeerModelSettings(name="digits-cnn", outputs=3), datasets, tmp_path)

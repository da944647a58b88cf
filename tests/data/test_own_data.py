"""A user's own arrays: taken as they are, pooled once, refused when they cannot work."""

import numpy as np
import pytest
import torch

from coterie.data.peer_arrays import PeerArrays, PeerData
from coterie.data.peer_datasets import PeerDatasets
from coterie.errors import ConfigError, DataError

PARTS = ("train", "validation", "test")


def _part(count, shape=(2, 3), labels=4, seed=0):
    random = np.random.default_rng([seed, count])
    return random.normal(size=(count, *shape)), random.integers(0, labels, count)


def _peer(number=0, **replaced):
    sizes = {"train": 5 + number, "validation": 3, "test": 4}
    return PeerData(**{name: _part(sizes[name], seed=number) for name in PARTS} | replaced)


def _held(datasets, part):
    pool = datasets.pools[part.pool]
    return pool.inputs[part.rows()], pool.targets[part.rows()]


def test_every_peer_gets_back_what_it_gave():
    peers = [_peer(number) for number in range(3)]
    datasets = PeerArrays(peers)
    assert isinstance(datasets, PeerDatasets)
    assert datasets.num_peers == 3
    assert datasets.input_shape == (2, 3)
    assert datasets.is_classification
    for given, view in zip(peers, datasets.load_step(0), strict=True):
        for name in PARTS:
            inputs, targets = _held(datasets, getattr(view, name))
            np.testing.assert_array_equal(inputs, getattr(given, name)[0].astype(np.float32))
            np.testing.assert_array_equal(targets, getattr(given, name)[1])


def test_everything_lies_in_one_pool_without_overlap():
    datasets = PeerArrays([_peer(number) for number in range(4)])
    assert len(datasets.pools) == 1
    parts = [getattr(view, name) for view in datasets.load_step(0) for name in PARTS]
    assert {part.pool for part in parts} == {0}
    rows = np.concatenate([part.rows() for part in parts])
    assert sorted(rows) == list(range(len(datasets.pools[0].inputs)))
    assert len(datasets.pools[0].targets) == len(rows) == 5 + 6 + 7 + 8 + 4 * 7
    assert datasets.pools[0].inputs.dtype == np.float32
    assert datasets.pools[0].targets.dtype == np.int64


def test_the_pool_is_a_copy():
    inputs, labels = _part(5)
    datasets = PeerArrays([_peer(train=(inputs, labels))])
    before = datasets.pools[0].inputs.copy()
    inputs[:] = 99
    labels[:] = 0
    np.testing.assert_array_equal(datasets.pools[0].inputs, before)
    assert datasets.pools[0].targets[:5].any()


def test_nothing_changes_over_time():
    datasets = PeerArrays([_peer()])
    assert {datasets.step_of(number) for number in (0, 1, 1000)} == {0}
    assert datasets.load_step(0) == datasets.load_step(0)


def test_the_highest_label_anywhere_decides_the_outputs():
    inputs, labels = _part(4)
    labels[2] = 11
    assert PeerArrays([_peer(), _peer(1, test=(inputs, labels))]).num_outputs == 12


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.int64, np.uint16])
def test_labels_of_any_integer_kind_become_int64(dtype):
    datasets = PeerArrays([PeerData(*[(np.zeros((3, 2)), np.array([2, 0, 1], dtype=dtype))] * 3)])
    assert datasets.is_classification
    assert datasets.pools[0].targets.dtype == np.int64
    assert datasets.pools[0].targets.tolist() == [2, 0, 1] * 3


def test_floats_are_values_to_predict():
    datasets = PeerArrays([PeerData(*[(np.zeros((3, 2)), np.array([-2.5, 0.0, 11.25]))] * 3)])
    assert not datasets.is_classification
    assert datasets.num_outputs == 1
    assert datasets.pools[0].targets.dtype == np.float32
    assert datasets.pools[0].targets.tolist() == [-2.5, 0.0, 11.25] * 3


def test_lists_and_tensors_are_taken_too():
    lists = ([[1.0, 2.0], [3.0, 4.0]], [0, 1])
    tensors = (torch.tensor(lists[0]), torch.tensor(lists[1]))
    datasets = PeerArrays([PeerData(lists, tensors, tensors)])
    assert datasets.input_shape == (2,)
    assert datasets.pools[0].inputs.tolist() == lists[0] * 3
    assert datasets.pools[0].targets.tolist() == lists[1] * 3


def test_clusters_are_as_the_user_names_them():
    peers = [_peer(number) for number in range(3)]
    datasets = PeerArrays(peers, clusters=[2, 0, 2])
    assert datasets.clusters(0).tolist() == [2, 0, 2]
    assert len(datasets.cluster_names) == 3
    unnamed = PeerArrays(peers)
    assert unnamed.clusters(0).tolist() == [0, 0, 0]
    assert len(unnamed.cluster_names) == 1


@pytest.mark.parametrize(
    "clusters", [[0], [0, 1, 2], [0, -1], [[0, 1]], [], [0.5, 1.0], ["a", "b"]], ids=str
)
def test_clusters_must_be_one_number_for_each_peer(clusters):
    with pytest.raises(ConfigError, match="2 whole numbers from 0"):
        PeerArrays([_peer(0), _peer(1)], clusters=clusters)


def test_there_must_be_a_peer():
    with pytest.raises(ConfigError, match="at least one peer"):
        PeerArrays([])


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_samples_that_are_not_finite_are_counted(bad, name):
    inputs, labels = _part(6)
    inputs[4:, 1, 2] = bad
    with pytest.raises(DataError, match=f"Peer 1, {name} data: 2 of 6 samples.*sample 4"):
        PeerArrays([_peer(0), _peer(1, **{name: (inputs, labels)})])


def test_values_that_are_not_finite_are_refused():
    good = (np.zeros((2, 2)), np.array([0.5, 1.5]))
    bad = (np.zeros((2, 2)), np.array([0.5, np.nan]))
    with pytest.raises(DataError, match=r"Peer 0, test data: .*targets"):
        PeerArrays([PeerData(good, good, bad)])


@pytest.mark.parametrize(
    ("part", "message"),
    [
        (_part(4, shape=(3, 2)), r"inputs are float32 \(n, 3, 2\).*\(n, 2, 3\)"),
        (_part(4, shape=(6,)), r"inputs are float32 \(n, 6\).*\(n, 2, 3\)"),
        ((_part(4)[0], np.zeros((4, 2), int)), r"targets \(n, 2\)"),
        ((_part(4)[0], np.int64(1)), "targets have shape"),
        ((_part(4)[0], np.zeros(3, int)), "4 inputs but 3 targets"),
        ((np.float64(1.0), np.zeros(4, int)), "a single number, not an array"),
        ((np.zeros((0, 2, 3)), np.zeros(0, int)), "no samples"),
        ((_part(4)[0], np.array([0, 1, -1, 2])), "label -1 is negative"),
        ((_part(4)[0], np.zeros(4)), r"targets are floats.*peer 0 has whole numbers"),
    ],
)
@pytest.mark.parametrize("name", PARTS)
def test_parts_that_do_not_fit_are_refused(name, part, message):
    with pytest.raises(DataError, match=f"Peer 1, {name} data: .*{message}"):
        PeerArrays([_peer(0), _peer(1, **{name: part})])


def test_whole_numbers_among_values_are_values():
    values = (np.zeros((2, 2)), np.array([0.5, 1.5]))
    labels = (np.zeros((2, 2)), np.array([0, 1]))
    datasets = PeerArrays([PeerData(values, labels, values)])
    assert datasets.pools[0].targets.dtype == np.float32


@pytest.mark.parametrize(
    "part",
    [
        (np.zeros((2, 2, 3)), np.array(["cat", "dog"])),
        (np.zeros((2, 2, 3)), np.array([None, None])),
        (np.zeros((2, 2, 3)), np.array([1j, 2j])),
        (np.full((2, 2, 3), "pixel"), np.array([0, 1])),
        ([[[1, 2, 3], [4, 5, 6]], [[1, 2, 3], [4, 5]]], np.array([0, 1])),
    ],
    ids=["text targets", "no targets", "complex targets", "text inputs", "ragged inputs"],
)
def test_what_is_not_numbers_is_refused_in_plain_words(part):
    with pytest.raises(DataError, match="Peer 0, train data"):
        PeerArrays([PeerData(part, part, part)])

"""Arrays people store themselves: accepted shapes and names, and helpful refusals."""

import io
import zipfile

import numpy as np
import pytest

from coterie.data.npz import read_npz
from coterie.errors import DataError


def _images(shape, dtype=np.uint8):
    return np.random.default_rng(0).integers(0, 256, shape).astype(dtype)


def _save(tmp_path, **arrays):
    path = tmp_path / "mine.npz"
    np.savez(path, **arrays)
    return path


LABELS = np.arange(20) % 4


@pytest.mark.parametrize("names", [("train_images", "train_labels"), ("x_train", "y_train")])
@pytest.mark.parametrize("dtype", [np.uint8, np.float64])
@pytest.mark.parametrize(
    ("shape", "order"),
    [
        ((20, 6, 5), None),
        ((20, 6, 5, 3), (0, 3, 1, 2)),
        ((20, 6, 5, 1), (0, 3, 1, 2)),
        ((20, 3, 6, 5), (0, 1, 2, 3)),
        ((20, 1, 6, 5), (0, 1, 2, 3)),
        ((20, 3, 5, 3), (0, 1, 2, 3)),
    ],
)
def test_images_become_channels_first(names, dtype, shape, order, tmp_path):
    images = _images(shape, dtype)
    inputs, targets = names
    test = {
        inputs.replace("train", "test"): images[:4],
        targets.replace("train", "test"): LABELS[:4],
    }
    dataset = read_npz(_save(tmp_path, **{inputs: images, targets: LABELS}, **test))
    expected = images[:, np.newaxis] if order is None else images.transpose(order)
    np.testing.assert_array_equal(dataset.inputs, expected)
    np.testing.assert_array_equal(dataset.test_inputs, expected[:4])
    assert dataset.inputs.dtype == (np.uint8 if dtype == np.uint8 else np.float32)
    assert dataset.targets.dtype == np.int64
    assert dataset.classes == ("0", "1", "2", "3")
    assert dataset.name == "mine"


def test_features_and_values_make_a_regression(tmp_path):
    inputs = np.random.default_rng(0).normal(size=(20, 7))
    targets = inputs.sum(axis=1)
    dataset = read_npz(_save(tmp_path, train_inputs=inputs, train_targets=targets))
    assert not dataset.is_classification
    assert dataset.shape == (7,)
    assert len(dataset.targets) == 16
    assert len(dataset.test_targets) == 4
    assert dataset.targets.dtype == np.float32
    np.testing.assert_allclose(dataset.test_inputs.sum(axis=1), dataset.test_targets, atol=1e-5)


def test_holdout_is_stratified_fixed_and_complete(tmp_path):
    images = _images((40, 4, 4))
    labels = np.repeat([0, 1], [30, 10])
    path = _save(tmp_path, x_train=images, y_train=labels)
    first, again = read_npz(path), read_npz(path)
    assert np.bincount(first.test_targets).tolist() == [6, 2]
    np.testing.assert_array_equal(first.test_inputs, again.test_inputs)
    together = np.concatenate([first.inputs, first.test_inputs])[:, 0].reshape(40, -1)
    original = images.reshape(40, -1)
    np.testing.assert_array_equal(
        together[np.lexsort(together.T)], original[np.lexsort(original.T)]
    )


def test_class_names_and_column_labels(tmp_path):
    column = LABELS[:, np.newaxis].astype(np.uint8)
    arrays = {"x_train": _images((20, 4, 4)), "y_train": column}
    dataset = read_npz(_save(tmp_path, **arrays, classes=np.array(["a", "b", "c", "d", "e"])))
    assert dataset.classes == ("a", "b", "c", "d", "e")
    dataset = read_npz(_save(tmp_path, **arrays, classes=np.array([b"a", b"b", b"c", b"d"])))
    assert dataset.classes == ("a", "b", "c", "d")


GOOD = {"x_train": _images((20, 4, 4)), "y_train": LABELS}
BAD_VALUES = np.ones((20, 3))
BAD_VALUES[5, 1] = np.nan


@pytest.mark.parametrize(
    ("arrays", "complaint"),
    [
        ({"x_train": None, "x_trian": _images((20, 4, 4))}, "x_train or .*It has: x_trian"),
        ({"y_train": None}, "train_labels or y_train or train_targets"),
        ({"x_test": _images((4, 4, 4))}, "test_labels or y_test"),
        ({"x_train": _images((20,))}, r"shape \(20,\)"),
        ({"x_train": _images((20, 16))}, r"shape \(20, 16\)"),
        ({"x_train": _images((20, 4, 4, 5))}, r"shape \(20, 4, 4, 5\)"),
        ({"x_train": _images((20, 4, 4), np.int64)}, "int64; expected uint8"),
        ({"x_train": np.full((20, 3), "x")}, "expected uint8 images or floats"),
        ({"x_train": BAD_VALUES}, "NaN"),
        ({"x_train": np.full((20, 3), 1e300)}, "infinite"),
        ({"x_train": np.array([{}] * 20, dtype=object)}, "allow_pickle"),
        ({"x_train": _images((19, 4, 4))}, "19 training inputs but 20"),
        ({"x_train": _images((0, 4, 4)), "y_train": LABELS[:0]}, "no samples"),
        ({"y_train": np.zeros((20, 4))}, r"shape \(20, 4\)"),
        ({"y_train": np.full(20, "dog")}, "expected whole numbers"),
        ({"y_train": LABELS - 1}, "labels run from -1"),
        ({"y_train": LABELS + 2**40}, "too many classes"),
        (
            {"y_train": LABELS.astype(float), "classes": np.array(["a"])},
            "floats, not class numbers",
        ),
        ({"classes": np.array(["a", "b"])}, "2 class names"),
        ({"classes": np.array([1, 2, 3, 4])}, "array of names"),
        ({"x_test": _images((4, 4, 4)), "y_test": np.ones(4)}, "both parts with the same types"),
        ({"x_test": _images((4, 5, 4)), "y_test": LABELS[:4]}, "both must be the same"),
    ],
)
def test_refusals(arrays, complaint, tmp_path):
    kept = {name: array for name, array in (GOOD | arrays).items() if array is not None}
    with pytest.raises(DataError, match=complaint):
        read_npz(_save(tmp_path, **kept))


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("fraction", [0.0, 0.001, 0.2, 0.6, 0.99])
def test_truncated_archives(compressed, fraction, tmp_path):
    path = tmp_path / "mine.npz"
    (np.savez_compressed if compressed else np.savez)(path, **GOOD)
    path.write_bytes(path.read_bytes()[: int(fraction * path.stat().st_size)])
    with pytest.raises(DataError, match=r"mine\.npz cannot be read"):
        read_npz(path)


def test_random_damage_never_escapes(tmp_path):
    path = tmp_path / "mine.npz"
    np.savez_compressed(path, **GOOD)
    whole = path.read_bytes()
    random = np.random.default_rng(0)
    refused = 0
    for _ in range(300):
        damaged = bytearray(whole)
        damaged[random.integers(len(whole))] ^= 1 + int(random.integers(255))
        path.write_bytes(damaged)
        try:
            read_npz(path)
        except DataError:
            refused += 1
    assert refused > 100


def _npy(header):
    text = header.ljust(117).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


@pytest.mark.parametrize(
    "member",
    [
        b"no array at all",
        b"",
        _npy("{'descr': '|u1', 'fortran_order': False, 'shape': (99999999999999, 9), }"),
        _npy("{'descr': '|u1', 'fortran_order': False, 'shape': (" + "9" * 40 + ",), }"),
        _npy("{'descr': '|u1', 'fortran_order': False, 'shape': (-5,), }"),
        _npy("{'descr': '|u1', 'fortran_order': ((("),
        _npy("{'descr': __import__('os'), 'fortran_order': False, 'shape': (1,), }"),
        _npy("'''"),
    ],
)
def test_hostile_members(member, tmp_path):
    path = tmp_path / "mine.npz"
    labels = io.BytesIO()
    np.save(labels, LABELS)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x_train.npy", member)
        archive.writestr("y_train.npy", labels.getvalue())
    with pytest.raises(DataError, match=r"mine\.npz"):
        read_npz(path)


def test_not_an_archive(tmp_path):
    path = tmp_path / "mine.npz"
    with path.open("wb") as stream:
        np.save(stream, LABELS)
    with pytest.raises(DataError, match="single array"):
        read_npz(path)
    with pytest.raises(DataError, match=r"absent\.npz cannot be read"):
        read_npz(tmp_path / "absent.npz")


def test_a_small_file_that_would_fill_the_memory(tmp_path):
    path = tmp_path / "bomb.npz"
    np.savez_compressed(path, x_train=np.zeros((2**21, 8, 8), np.uint8), y_train=LABELS)
    assert path.stat().st_size < 2**18
    with pytest.raises(DataError, match="would unpack to 134,"):
        read_npz(path)


def test_real_data_that_compress_well_are_read(tmp_path):
    path = tmp_path / "mine.npz"
    np.savez_compressed(path, x_train=np.zeros((20, 900, 900), np.uint8), y_train=LABELS)
    assert len(read_npz(path).inputs) == 16


def test_class_names_that_are_no_text(tmp_path):
    names = np.array(list("abcd"))
    names.view(np.uint32)[1] = 2**31
    with pytest.raises(DataError, match="names in 'classes' are not text"):
        read_npz(_save(tmp_path, x_train=_images((20, 6, 5)), y_train=LABELS, classes=names))

"""A small PACS in the layouts people have it in, whole and damaged."""

import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from coterie.data.pacs import CLASSES, locate_pacs, read_pacs
from coterie.errors import ConfigError, DataError

PER_CLASS = 5


def _write(folder, suffix=".png", size=(227, 227), mode="RGB"):
    """Pictures whose every pixel is (10 · class + number)."""
    for label, name in enumerate(CLASSES):
        (folder / name).mkdir(parents=True)
        for number in range(PER_CLASS):
            color = 10 * label + number
            picture = Image.new(mode, size, color if mode == "L" else (color, color, color))
            picture.save(folder / name / f"pic_{number}{suffix}")
    (folder / CLASSES[0] / ".hidden.png").write_bytes(b"no picture")
    (folder / CLASSES[0] / "readme.txt").write_text("no picture")


@pytest.mark.parametrize("layout", ["pacs/PACS", "PACS", "pacs", "pacs_data/pacs_data"])
def test_every_layout(layout, tmp_path):
    _write(tmp_path / layout / "cartoon")
    assert locate_pacs("cartoon", tmp_path) == tmp_path / layout / "cartoon"
    dataset = read_pacs(tmp_path, "cartoon")
    assert dataset.name == "pacs-cartoon"
    assert dataset.classes == CLASSES
    assert dataset.inputs.shape == (28, 3, 227, 227)
    np.testing.assert_array_equal(np.bincount(dataset.targets), [4] * 7)
    np.testing.assert_array_equal(np.bincount(dataset.test_targets), [1] * 7)
    colors = np.concatenate([dataset.inputs, dataset.test_inputs])
    labels = np.concatenate([dataset.targets, dataset.test_targets])
    assert (colors == colors[:, :1, :1, :1]).all()
    np.testing.assert_array_equal(colors[:, 0, 0, 0] // 10, labels)
    assert len(np.unique(colors[:, 0, 0, 0])) == 7 * PER_CLASS


def test_split_is_fixed_and_depends_on_the_domain(tmp_path):
    for domain in ("photo", "sketch"):
        _write(tmp_path / "PACS" / domain)
    first, again = (read_pacs(tmp_path, "photo") for _ in range(2))
    np.testing.assert_array_equal(first.test_inputs, again.test_inputs)
    assert (read_pacs(tmp_path, "sketch").test_inputs != first.test_inputs).any()


def test_grey_jpegs_become_colour(tmp_path):
    _write(tmp_path / "PACS" / "photo", suffix=".JPG", mode="L")
    assert read_pacs(tmp_path, "photo").inputs.shape[1] == 3


def test_channels_come_first(tmp_path):
    folder = tmp_path / "PACS" / "photo"
    _write(folder)
    for path in (folder / "dog").glob("pic_*"):
        Image.new("RGB", (227, 227), (1, 2, 3)).save(path)
    dataset = read_pacs(tmp_path, "photo")
    dog = dataset.inputs[dataset.targets == 0][0]
    assert dog[:, 0, 0].tolist() == [1, 2, 3]


def test_other_sizes_are_refused(tmp_path):
    folder = tmp_path / "PACS" / "photo"
    _write(folder)
    Image.new("RGB", (227, 226)).save(folder / "horse" / "pic_3.png")
    with pytest.raises(DataError, match=r"227×226 pixels; expected a 227×227") as caught:
        read_pacs(tmp_path, "photo")
    assert str(folder / "horse" / "pic_3.png") in str(caught.value)


@pytest.mark.parametrize("suffix", [".png", ".jpg"])
@pytest.mark.parametrize("fraction", [0.0, 0.05, 0.5, 0.9])
def test_truncated_pictures(suffix, fraction, tmp_path):
    folder = tmp_path / "PACS" / "photo"
    _write(folder, suffix)
    path = folder / "person" / f"pic_2{suffix}"
    noise = np.random.default_rng(0).integers(0, 256, (227, 227, 3), dtype=np.uint8)
    Image.fromarray(noise).save(path)
    path.write_bytes(path.read_bytes()[: int(fraction * path.stat().st_size)])
    with pytest.raises(DataError, match="cannot be read") as caught:
        read_pacs(tmp_path, "photo")
    assert str(path) in str(caught.value)


def _chunk(kind, content):
    checksum = struct.pack(">I", zlib.crc32(kind + content))
    return struct.pack(">I", len(content)) + kind + content + checksum


@pytest.mark.parametrize("size", [12_000, 100_000])
def test_decompression_bomb_does_not_go_off(size, tmp_path):
    folder = tmp_path / "PACS" / "photo"
    _write(folder)
    header = _chunk(b"IHDR", struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0))
    content = (
        b"\x89PNG\r\n\x1a\n" + header + _chunk(b"IDAT", zlib.compress(b"\0")) + _chunk(b"IEND", b"")
    )
    (folder / "dog" / "pic_0.png").write_bytes(content)
    with pytest.raises(DataError, match=r"pic_0\.png is too large"):
        read_pacs(tmp_path, "photo")


def test_missing_and_empty_classes(tmp_path):
    folder = tmp_path / "PACS" / "photo"
    _write(folder)
    for path in (folder / "guitar").iterdir():
        path.unlink()
    with pytest.raises(DataError, match=r"guitar has 0 picture"):
        read_pacs(tmp_path, "photo")
    (folder / "guitar").rmdir()
    with pytest.raises(DataError, match=r"guitar cannot be read"):
        read_pacs(tmp_path, "photo")


def test_nothing_there(tmp_path):
    assert locate_pacs("photo", tmp_path) is None
    with pytest.raises(DataError, match=r"https://domaingeneralization\.github\.io") as caught:
        read_pacs(tmp_path, "photo")
    assert str(tmp_path / "pacs" / "PACS" / "photo") in str(caught.value)


def test_unknown_domain(tmp_path):
    with pytest.raises(ConfigError, match="Did you mean 'sketch'"):
        read_pacs(tmp_path, "sketches")

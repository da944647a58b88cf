"""Files become the data of peers, in the units of their own training rows."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from own_tables import farm_rows, write_farms
from PIL import Image

from coterie.data.own_files.load import load_own_files
from coterie.data.own_files.owned_peers import OwnedPeers, standardise
from coterie.data.own_files.settings import ArrayFile, ImageFolder, TableFile
from coterie.errors import DataError

NAN = float("nan")


def load(
    settings: TableFile | ArrayFile | ImageFolder, *, rounds: int = 0, seed: int = 0
) -> OwnedPeers:
    return load_own_files(settings, None, rounds=rounds, seed=seed)


@pytest.fixture
def farms(tmp_path):
    return write_farms(tmp_path / "farms.csv")


def test_a_peer_standardises_by_its_own_training_rows(farms):
    peers = load(TableFile(path=farms, peers_by="farm", label="crop", features=("rain", "soil")))
    assert peers.peer_names == ("east", "north", "west")
    assert (peers.input_shape, peers.num_outputs, peers.classes) == ((4,), 2, ("bad", "good"))
    for view in peers.load_step(0):
        rain, is_missing = peers.pools[0].inputs[view.train.rows(), 2:].T
        known = rain[is_missing == 0]
        assert known.mean() == pytest.approx(0, abs=1e-6)
        assert known.std() == pytest.approx(1, abs=1e-6)
        assert (rain[is_missing == 1] == 0).all()


def test_values_to_predict_have_one_scale_for_all_peers(farms):
    peers = load(TableFile(path=farms, peers_by="farm", label="yield", features=("rain",)))
    assert not peers.is_classification
    rows = np.concatenate([view.train.rows() for view in peers.load_step(0)])
    train = peers.pools[0].targets[rows]
    assert train.mean() == pytest.approx(0, abs=1e-5)
    assert train.std() == pytest.approx(1, abs=1e-5)
    real = {float(np.float32(row[5])) for row in farm_rows()}
    back = peers.pools[0].targets * peers.target_scale.deviation + peers.target_scale.mean
    assert np.abs(np.subtract.outer(back, np.array(sorted(real)))).min(axis=1).max() < 1e-4


def test_standardising_knows_constants_missing_values_and_extremes():
    train = np.array([[1, 5, NAN, 1e9], [3, 5, NAN, 1e9 + 2]], np.float32)
    values = np.array([[2, 7, 4, 1e9], [1e6, 5, NAN, 1e9], [NAN, 5, 1, 1e9]], np.float32)
    expected = [[0, 0, 0, 0], [10, 0, 0, 0], [0, 0, 0, 0]]
    np.testing.assert_array_equal(standardise(values, train), np.array(expected, np.float32))


def test_a_run_is_divided_among_the_windows_of_time(farms):
    settings = TableFile(
        path=farms, peers_by="farm", label="crop", time=("day",), windows=4, min_rows=10
    )
    peers = load(settings, rounds=9)
    assert peers.num_steps == 3
    assert [peers.step_of(number) for number in range(11)] == [0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 2]
    first, second = peers.load_step(0)[1], peers.load_step(1)[1]
    assert first.test.start == second.train.start
    assert first.test.stop == second.validation.stop


def test_all_rows_of_a_peer_share_the_units_of_the_first_window(farms):
    settings = TableFile(
        path=farms,
        peers_by="farm",
        label="crop",
        time=("day",),
        windows=4,
        min_rows=10,
        features=("rain",),
    )
    peers = load(settings)
    rows = [row for row in farm_rows() if row[0] == "east" and row[3] != "?"]
    for view in peers.load_step(0)[:1]:
        inputs = peers.pools[0].inputs[view.train.start : peers.load_step(2)[0].test.stop]
        known = inputs[inputs[:, 1] == 0, 0]
    rain = np.array([row[3] for row in rows])
    slope = np.ptp(known) / np.ptp(rain)
    np.testing.assert_allclose(known, (rain - rain[0]) * slope + known[0], atol=1e-4)


def test_rows_without_a_label_or_a_peer_are_left_out_and_counted(tmp_path):
    rows = farm_rows()
    rows[0][4], rows[1][0], rows[2][0] = "", "?", ""
    path = write_farms(tmp_path / "farms.csv", rows)
    peers = load(TableFile(path=path, peers_by="farm", label="crop", ignore=("day",)))
    assert peers.notes == ("2 rows without 'farm' left out.", "1 row without 'crop' left out.")


def test_another_file_of_the_same_name_is_refused(farms):
    digest = hashlib.sha256(farms.read_bytes()).hexdigest()
    settings = TableFile(path=farms, peers_by="farm", label="crop", ignore=("day",), sha256=digest)
    assert load(settings).num_peers == 3
    farms.write_text(farms.read_text().replace("east", "ost"))
    with pytest.raises(DataError, match="has changed, or is another version"):
        load(settings)


def test_a_file_is_found_in_the_data_root_of_another_machine(farms, tmp_path):
    settings = TableFile(path="/gone/farms.csv", peers_by="farm", label="crop", ignore=("day",))
    found = load_own_files(settings, tmp_path, rounds=0, seed=0)
    assert found.num_peers == 3
    with pytest.raises(DataError, match="--data-root"):
        load_own_files(settings, tmp_path / "other", rounds=0, seed=0)


def test_arrays_have_an_owner_for_each_sample(tmp_path):
    path = tmp_path / "sounds.npz"
    inputs = np.arange(60 * 4 * 4, dtype=np.float16).reshape(60, 1, 4, 4)
    names = np.array(["ann", "bob", "eve"])[np.arange(60) % 3]
    np.savez(path, inputs=inputs, labels=np.arange(60) % 5, peers=names)
    peers = load(ArrayFile(path=path))
    assert (peers.num_peers, peers.input_shape, peers.num_outputs) == (3, (1, 4, 4), 5)
    view = peers.load_step(0)[1]
    assert set(peers.pools[0].inputs[view.train.rows(), 0, 0, 0] // 16 % 3) == {1}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"peers": None}, "no array named peers"),
        ({"peers": np.zeros(7, np.int64)}, "the peer of each sample"),
        ({"labels": np.zeros(7, np.int64)}, "60 inputs but 7 targets"),
        ({"classes": np.array(["a", "b"])}, "a label is 4"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(tmp_path, changes, message):
    arrays = {"inputs": np.zeros((60, 3), np.float32), "labels": np.arange(60) % 5}
    arrays |= {"peers": np.arange(60) % 3} | changes
    path = tmp_path / "sounds.npz"
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})
    with pytest.raises(DataError, match=message):
        load(ArrayFile(path=path))


def write_images(folder, mode: str = "L", size: int = 12) -> None:
    rng = np.random.default_rng(0)
    for peer in ("ann", "bob"):
        for label, grey in (("dark", 0), ("light", 200)):
            place = folder / peer / label
            place.mkdir(parents=True)
            for number in range(15):
                pixels = rng.integers(grey, grey + 50, (size, size + 4)).astype(np.uint8)
                ending = "png" if number % 2 else "jpg"
                Image.fromarray(pixels).convert(mode).save(place / f"{number}.{ending}")


@pytest.mark.parametrize(("mode", "channels"), [("L", 1), ("RGB", 3)])
def test_folders_are_peers_and_classes(tmp_path, mode, channels):
    write_images(tmp_path / "photos", mode)
    peers = load(ImageFolder(path=tmp_path / "photos", image_size=8))
    assert peers.peer_names == ("ann", "bob")
    assert peers.classes == ("dark", "light")
    assert peers.input_shape == (channels, 8, 8)
    pool = peers.pools[0]
    assert (
        pool.inputs[pool.targets == 0].mean() < -0.5 < 0.5 < pool.inputs[pool.targets == 1].mean()
    )


def test_one_colour_image_makes_all_images_colour(tmp_path):
    write_images(tmp_path / "photos")
    Image.new("RGB", (9, 9), "red").save(tmp_path / "photos" / "ann" / "dark" / "red.png")
    assert load(ImageFolder(path=tmp_path / "photos")).input_shape == (3, 32, 32)


def test_damaged_images_and_empty_folders_are_named(tmp_path):
    with pytest.raises(DataError, match="has no images"):
        load(ImageFolder(path=tmp_path))
    write_images(tmp_path / "photos")
    broken = tmp_path / "photos" / "ann" / "dark" / "1.png"
    broken.write_bytes(broken.read_bytes()[:40])
    with pytest.raises(DataError, match=r"1\.png cannot be read"):
        load(ImageFolder(path=tmp_path / "photos"))

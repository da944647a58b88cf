"""The dataset_catalogue: names, status without reading, loading and keeping."""

import gzip

import numpy as np
import pytest

from coterie.data import dataset_catalogue
from coterie.data.dataset_catalogue import DATASETS, describe, load_dataset
from coterie.errors import ConfigError, DataError


@pytest.fixture(autouse=True)
def _offline_and_forgetful(monkeypatch):
    monkeypatch.setenv("COTERIE_OFFLINE", "1")
    dataset_catalogue._cached.cache_clear()


def _save(path, count=20):
    np.savez(path, x_train=np.zeros((count, 4, 4), np.uint8), y_train=np.arange(count) % 2)
    return path


def test_catalogue_is_complete():
    assert set(DATASETS) == {
        "digits",
        "cifar10",
        "cifar100",
        "mnist",
        "fashion-mnist",
        "pacs-photo",
        "pacs-art_painting",
        "pacs-cartoon",
        "pacs-sketch",
    }


def test_loaded_datasets_are_kept(tmp_path):
    first = load_dataset("digits", tmp_path)
    assert load_dataset("digits", tmp_path) is first
    assert first.name == "digits"
    assert dataset_catalogue._cached.cache_info().maxsize == 4


@pytest.mark.parametrize("name", [name for name in DATASETS if name != "digits"])
def test_absent_datasets_say_how_to_get_them(name, tmp_path):
    status = describe(name, tmp_path)
    assert (status.name, status.available, status.where) == (name, False, "")
    assert "http" in status.how_to_get
    with pytest.raises(DataError) as caught:
        load_dataset(name, tmp_path)
    assert str(tmp_path) in str(caught.value)
    assert "--data-root" in str(caught.value)


def test_status_does_not_read_the_data(tmp_path):
    (tmp_path / "cifar-10-batches-bin").mkdir()
    status = describe("cifar10", tmp_path)
    assert status.available
    assert status.where == str(tmp_path / "cifar-10-batches-bin")
    (tmp_path / "mnist").mkdir()
    for name in ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"):
        (tmp_path / "mnist" / f"{name}-ubyte.gz").write_bytes(gzip.compress(b""))
    assert describe("mnist", tmp_path).where == str(tmp_path / "mnist")
    (tmp_path / "PACS" / "photo").mkdir(parents=True)
    assert describe("pacs-photo", tmp_path).available
    assert not describe("pacs-sketch", tmp_path).available
    assert describe("digits", tmp_path).available


def test_data_root_comes_from_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("COTERIE_DATA", str(tmp_path))
    _save(tmp_path / "mine.npz")
    assert describe("mine.npz").where == str(tmp_path / "mine.npz")
    assert load_dataset("mine.npz").name == "mine"


def test_npz_is_found_in_the_working_folder_first_then_in_the_root(tmp_path, monkeypatch):
    here, root = tmp_path / "here", tmp_path / "root"
    here.mkdir()
    root.mkdir()
    monkeypatch.chdir(here)
    _save(root / "mine.npz", 20)
    assert len(load_dataset("mine.npz", root).inputs) == 16
    assert len(load_dataset(str(root / "mine.npz"), here).inputs) == 16
    _save(here / "mine.npz", 40)
    dataset_catalogue._cached.cache_clear()
    assert len(load_dataset("mine.npz", root).inputs) == 32


def test_absent_npz_names_every_place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert not describe("mine.npz", tmp_path / "root").available
    with pytest.raises(DataError) as caught:
        load_dataset("mine.npz", tmp_path / "root")
    assert str(tmp_path / "mine.npz") in str(caught.value)
    assert str(tmp_path / "root" / "mine.npz") in str(caught.value)


def test_unknown_names(tmp_path):
    for function in (load_dataset, describe):
        with pytest.raises(ConfigError, match="Did you mean 'fashion-mnist'"):
            function("fashion_mnist", tmp_path)

"""Clusters that cannot be reached, and a missing Ray."""

from __future__ import annotations

import importlib.util
import socket

import pytest
from commands import coterie, refused

from coterie.cluster.connection import connect, require_ray
from coterie.errors import ConfigError


def test_without_ray_one_sentence_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr("coterie.cluster.connection.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'coterie\[ray\]'"):
        require_ray()


def test_ray_is_a_declared_extra():
    assert importlib.util.find_spec("ray") is not None
    require_ray()


@pytest.mark.parametrize("address", ["ray://head:10001", "head", "head:port", ":6379"])
def test_an_address_that_cannot_be_one(address):
    with pytest.raises(ConfigError, match=f"--address {address}"), connect(address, print):
        pass


def test_nothing_answers_at_the_address(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
        answer = coterie(
            *("run", "digits", "--engine", "ray", "--address", address),
            *("--out", tmp_path / "out"),
        )
    refused(answer, 2, f"No Ray cluster answers at {address}", "ray start --head")
    assert not (tmp_path / "out").exists()


def test_an_address_needs_the_engine(tmp_path):
    answer = coterie("run", "digits", "--address", "auto", "--out", tmp_path / "out")
    refused(answer, 2, "--engine ray")


def test_an_existing_connection_is_used_and_stays(nodes):
    import ray

    told = []
    with connect(None, told.append) as cluster:
        assert cluster.num_nodes == 2
        assert not cluster.is_own
    assert ray.is_initialized()
    assert "2 nodes with 2 CPUs" in told[0]

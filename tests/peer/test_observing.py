"""Logs, metrics and status: what people and programs can see of a peer."""

import json
import logging
import urllib.request

import pytest
from rich.console import Console
from torch import nn

from coterie.errors import ConfigError, StorageError
from coterie.models.layout import Layout
from coterie.peer.discovery.address_book import AddressBook
from coterie.peer.json_log import LOG, log_event, write_log
from coterie.peer.peer_run import STATUS, PeerRun, PeerStatus, read_status
from coterie.peer.prometheus import serve_metrics
from coterie.peer.refusals import Reason, RefusalCounts
from coterie.peer.security.identity import create_identity
from coterie.peer.security.trust import TrustStore
from coterie.peer.status import status_json, status_table
from coterie.peer.transport.context import PeerContext
from coterie.storage.files import lock_folder
from coterie.swarm.peer_folders import free_ports
from coterie.tasks.score import ACCURACY


@pytest.fixture
def address_book(tmp_path):
    return AddressBook(create_identity(tmp_path, "ward"), TrustStore(tmp_path))


def lines_of(folder):
    return [json.loads(line) for line in (folder / LOG).read_text().splitlines()]


def test_events_are_lines_of_json(tmp_path):
    log = logging.getLogger("coterie.peer.test")
    with write_log(tmp_path):
        log_event(log, "round", round=3, name="Größe\nüber zwei Zeilen")
        try:
            raise ValueError("broken")
        except ValueError:
            log.exception("it broke")
    log.error("nobody listens any more")
    told, failed = lines_of(tmp_path)
    assert (told["event"], told["round"], told["level"]) == ("round", 3, "info")
    assert told["name"] == "Größe\nüber zwei Zeilen"
    assert "ValueError: broken" in failed["traceback"]


def test_a_flood_of_refusals_does_not_flood_the_log(tmp_path):
    refused = RefusalCounts()
    with write_log(tmp_path):
        for _ in range(1000):
            refused.count("ab" * 32, Reason.NOT_FINITE)
    assert [line["count"] for line in lines_of(tmp_path)] == [2**n for n in range(10)]
    assert refused.of("ab" * 32) == {Reason.NOT_FINITE: 1000}
    assert {line["reason"] for line in lines_of(tmp_path)} == {"not-finite"}


def test_metrics_can_be_scraped(address_book):
    context = PeerContext(
        address_book.identity, address_book.trust, address_book, Layout.of(nn.Linear(2, 2))
    )
    context.traffic.bytes_received["ab" * 32] += 1234
    context.traffic.calls["ab" * 32, "Hello"] += 2
    for _ in range(3):
        context.refused.count("ab" * 32, Reason.BOMB)
    status = PeerStatus("ward", address_book.identity.peer_id, 1, round=7, validation_score=0.5)
    (port,) = free_ports(1)
    with serve_metrics(port, context, lambda: status):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as answer:
            text = answer.read().decode()
        with (
            pytest.raises(ConfigError, match="cannot be used"),
            serve_metrics(port, context, lambda: status),
        ):
            pass
    assert "coterie_round 7.0" in text
    assert "coterie_validation_score 0.5" in text
    assert 'coterie_bytes_received_total{peer="abababab"} 1234.0' in text
    assert 'coterie_calls_total{method="Hello",peer="abababab"} 2.0' in text
    assert 'coterie_refused_total{peer="abababab",reason="bomb"} 3.0' in text
    assert "validation_loss" not in text


def shown(folder):
    console = Console(width=200)
    with console.capture() as captured:
        console.print(status_table(folder))
    return captured.get()


def test_the_status_says_whether_it_runs(tmp_path, address_book):
    assert "has never run" in shown(tmp_path)
    assert json.loads(status_json(tmp_path)) is None
    run = PeerRun(tmp_path, address_book, 9, ACCURACY)
    run.update_status(state="running", round=4, validation_score=0.875, refused={"bomb": 2})
    text = shown(tmp_path)
    assert "ended unexpectedly" in text
    assert "4 of 9" in text
    assert "87.5%" in text
    assert "2 × bomb" in text
    run.update_status(state="finished")
    assert "finished" in shown(tmp_path)
    assert json.loads(status_json(tmp_path))["running"] is False


def test_a_damaged_status_is_told(tmp_path, address_book):
    (tmp_path / STATUS).write_text("{")
    with pytest.raises(StorageError, match="damaged"):
        read_status(tmp_path)


def test_a_running_peer_is_seen_from_another_process(tmp_path, address_book):
    import subprocess
    import sys

    PeerRun(tmp_path, address_book, None, ACCURACY).update_status(state="running", round=0)
    with lock_folder(tmp_path):
        told = subprocess.run(
            [sys.executable, "-m", "coterie", "peer", "status", "--folder", tmp_path, "--json"],
            capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
    assert json.loads(told)["running"] is True

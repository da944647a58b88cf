"""Copying a run's folder change by change."""

from __future__ import annotations

import pytest

from coterie.cluster import run_files
from coterie.cluster.run_files import ChangeSender, FileGone, FolderCopy
from coterie.storage.files import follow_changes, remove_files, write_text


@pytest.fixture
def folders(tmp_path):
    """Return a folder, its copy, and the changes that were sent between them."""
    for name in ("node", "copy"):
        (tmp_path / name).mkdir()
    return tmp_path / "node", FolderCopy(tmp_path / "copy"), []


def test_every_change_is_copied_in_order(folders, monkeypatch):
    node, copy, sent = folders
    monkeypatch.setattr(run_files, "PIECE_BYTES", 4)
    (node / "metrics").mkdir()
    with follow_changes(ChangeSender(node, sent.append, [])):
        write_text(node / "clusters.json", "long enough for several pieces")
        write_text(node / "metrics" / "part.parquet", "")
        write_text(node.parent / "elsewhere", "not of this run")
        remove_files([node / "metrics" / "part.parquet", node / "never.json"])
        write_text(node / "clusters.json", "new")
    assert {change.name for change in sent} == {"clusters.json", "metrics/part.parquet"}
    assert sum(isinstance(change, FileGone) for change in sent) == 1
    seen = []
    for change in sent:
        copy.apply([change])
        seen.append(sorted(path.name for path in copy.folder.rglob("*.json")))
    assert seen[0] == []  # an incomplete file has no name yet
    assert (copy.folder / "clusters.json").read_text() == "new"
    assert [path.name for path in copy.folder.iterdir()] == ["clusters.json"]


def test_an_incomplete_file_leaves_nothing(folders, monkeypatch):
    node, copy, sent = folders
    monkeypatch.setattr(run_files, "PIECE_BYTES", 4)
    with follow_changes(ChangeSender(node, sent.append, [])):
        write_text(node / "summary.json", "several pieces")
    copy.apply(sent[:1])
    copy.discard_partial()
    assert list(copy.folder.iterdir()) == []


def test_leftovers_are_deleted_and_not_sent(tmp_path):
    (tmp_path / "checkpoints").mkdir()
    for name in ("metrics.parquet", "checkpoints/round-0000001-ab.safetensors", "7.partial"):
        (tmp_path / name).write_text("")
    assert FolderCopy(tmp_path).list_files() == [
        "checkpoints/round-0000001-ab.safetensors",
        "metrics.parquet",
    ]
    assert not (tmp_path / "7.partial").exists()


def test_files_that_vanish_with_their_folder_are_sent_last(folders):
    node, _, sent = folders
    sender = ChangeSender(node, sent.append, ["checkpoints/round-0000001-ab.safetensors"])
    sender.send_rest()
    assert sent == [FileGone("checkpoints/round-0000001-ab.safetensors")]

"""What was reported as written outlives a power cut, whatever wrote it.

No power can be cut here: the calls that force files and folders onto the disk are watched.
"""

from __future__ import annotations

import ast
import os
from pathlib import Path

import pytest
from commands import SMALL, coterie
from disks import Disk

import coterie as package
from coterie.errors import StorageError
from coterie.experiments.config import make_scenario
from coterie.experiments.presets import find_preset
from coterie.peer.json_log import LOG as PEER_LOG
from coterie.peer.peer_run import STATUS
from coterie.runtime import recorder as recorders
from coterie.runtime.checkpoints import KEEP, Checkpoints
from coterie.storage import files
from coterie.storage.files import (
    GrowingFile,
    make_folder,
    remove_files,
    write_temporary_files,
    write_text,
)
from coterie.swarm.peer_folders import create_peer_folders

pytestmark = pytest.mark.skipif(not hasattr(os, "O_DIRECTORY"), reason="folders cannot be synced")


@pytest.fixture
def disk(tmp_path, monkeypatch) -> Disk:
    """Return what would be left of this test's folder; logs and statuses need not last."""
    return Disk(monkeypatch, tmp_path, (STATUS, PEER_LOG))


def damage(disk: Disk, folder: Path) -> list[str]:
    """Return what a power cut would do now, or could have done before."""
    return [*disk.mistakes, *disk.lost(folder), *disk.returning(folder)]


def test_a_file_is_safe_as_soon_as_it_is_written(tmp_path, disk):
    for text in ("old", "new"):
        write_text(tmp_path / "a.txt", text)
        assert not damage(disk, tmp_path)


def test_a_file_that_need_not_last_costs_nothing(tmp_path, disk):
    write_text(tmp_path / "a.txt", "now", durable=False)
    assert disk.num_synced == 0


def test_temporary_files_cost_nothing(tmp_path, disk):
    with write_temporary_files():
        write_text(tmp_path / "a.txt", "now")
        remove_files([tmp_path / "a.txt"])
    assert disk.num_synced == 0
    write_text(tmp_path / "b.txt", "later")
    assert not disk.lost(tmp_path)


def test_a_file_in_pieces_is_safe_when_it_is_complete(tmp_path, disk):
    for pieces in ([b"old"], [b"new", b"er"]):
        growing = GrowingFile(tmp_path / "a.bin")
        for piece in pieces:
            growing.add(piece)
        growing.finish()
        assert not damage(disk, tmp_path)
    assert (tmp_path / "a.bin").read_bytes() == b"newer"


def test_a_folder_is_safe_with_all_its_new_parents(tmp_path, disk):
    make_folder(tmp_path / "a" / "b" / "c")
    assert not damage(disk, tmp_path)
    before = disk.num_synced
    make_folder(tmp_path / "a" / "b" / "c")
    assert disk.num_synced == before


def test_a_file_that_was_removed_does_not_come_back(tmp_path, disk):
    for name in ("a", "b"):
        write_text(tmp_path / name, "text")
    remove_files(tmp_path / name for name in ("a", "b", "never"))
    assert not disk.returning(tmp_path)


def test_an_older_checkpoint_stays_until_the_newer_one_is_safe(tmp_path, disk):
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    for number in range(KEEP + 2):
        checkpoints.write(number, {"next_round": number})
        assert not disk.mistakes
        assert not disk.lost(tmp_path)
    assert len(list((tmp_path / "checkpoints").iterdir())) == KEEP


def test_a_run_with_all_that_is_made_of_it(tmp_path, disk, monkeypatch):
    monkeypatch.setattr(recorders, "FLUSH_SECONDS", 0.0)
    out = tmp_path / "out"
    assert coterie("run", *SMALL, "--set", "checkpoint_every=1", "--out", out).code == 0
    assert coterie("analyse", out).code == 0
    assert coterie("compare", out, "--out", out / "compared.md").code == 0
    assert coterie("report", out, "-o", out / "report.html").code == 0
    assert not damage(disk, tmp_path)


def test_records_that_are_taken_back(tmp_path, disk):
    """After a crash: what was recorded after the checkpoint must not come back beside the new."""
    from runtime.test_recorder import record

    for begin in (4, 0):
        again = record(tmp_path, range(6), {1, 3, 5}, finish=False)
        again.rewind(begin)
        assert not damage(disk, tmp_path)
    again.finish()
    assert not damage(disk, tmp_path)


def test_a_peer_its_key_and_whom_it_trusts(tmp_path, disk):
    for name in ("anna", "ben"):
        assert coterie("peer", "init", name, "--folder", tmp_path / name).code == 0
    of_ben = tmp_path / "ben" / "certificate.pem"
    for command in ("trust", "untrust"):
        assert coterie("peer", command, of_ben, "--folder", tmp_path / "anna").code == 0
        assert not damage(disk, tmp_path)
    assert not any((tmp_path / "anna" / "trusted").iterdir())


def test_the_folders_of_a_swarm(tmp_path, disk):
    (config,) = find_preset("digits").runs(["local"], [0], {"peers.count": 3})
    create_peer_folders(tmp_path, config, make_scenario(config), {}, aligned=True)
    assert not damage(disk, tmp_path)


def test_what_a_peer_keeps_of_its_rounds(tmp_path, disk):
    changes = {"peers.count": 1, "rounds": 2}
    (config,) = find_preset("digits").runs(["local"], [0], changes)
    (folder,) = create_peer_folders(tmp_path, config, make_scenario(config), {}, aligned=False)
    settings = (folder / "peer.yaml").read_text()
    write_text(folder / "peer.yaml", f"{settings}begin_with: 0\nlinger_seconds: 0.0\n")
    assert coterie("peer", "run", folder).code == 0
    assert (folder / "run" / "models.safetensors").exists()
    assert not disk.mistakes
    assert not disk.lost(tmp_path)


@pytest.mark.parametrize("number", [22, 9, 95])
def test_a_file_system_that_cannot_sync_folders_will_do(tmp_path, monkeypatch, number):
    sync = os.fsync

    def answer(opened: int) -> None:
        if os.path.isdir(f"/proc/self/fd/{opened}"):
            raise OSError(number, os.strerror(number))
        sync(opened)

    monkeypatch.setattr(os, "fsync", answer)
    write_text(tmp_path / "a.txt", "text")
    assert (tmp_path / "a.txt").read_text() == "text"


def test_a_folder_that_the_disk_does_not_take_is_reported(tmp_path, monkeypatch):
    def answer(opened: int) -> None:
        if os.path.isdir(f"/proc/self/fd/{opened}"):
            raise OSError(5, os.strerror(5))

    monkeypatch.setattr(os, "fsync", answer)
    with pytest.raises(StorageError, match=r"Cannot write to .*: Input/output error"):
        write_text(tmp_path / "a.txt", "text")


def test_where_folders_cannot_be_opened_files_are_written_all_the_same(tmp_path, monkeypatch):
    """As on Windows."""
    monkeypatch.delattr(os, "O_DIRECTORY")
    monkeypatch.delattr(os, "sync")
    make_folder(tmp_path / "a")
    write_text(tmp_path / "a" / "a.txt", "text")
    remove_files([tmp_path / "a" / "a.txt"])
    files.sync_everything()
    assert not any((tmp_path / "a").iterdir())


WRITING = {"write_text", "write_bytes", "rename", "replace", "touch", "mkdir", "makedirs"}
"""Methods and functions that change files without forcing them onto the disk."""


def test_only_one_module_writes_files():
    """What is written past it would not be forced onto the disk."""
    root = Path(package.__file__).parent
    found = [
        f"{path.relative_to(root)}:{call.lineno}"
        for path in sorted(root.rglob("*.py"))
        if path != Path(files.__file__)
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call) and _writes(call)
    ]
    assert not found


def _writes(call: ast.Call) -> bool:
    """Whether a call changes a file, as far as its text shows."""
    function = call.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    texts = [each.value for each in call.args if isinstance(each, ast.Constant)]
    if name == "open":
        return any(
            isinstance(text, str) and {*text} & {*"wax+"} and len(text) < 4 for text in texts
        )
    if name in ("replace", "rename") and isinstance(function, ast.Attribute):
        # Those of paths take one argument, those of os two; others are of texts or dataclasses.
        of_os = isinstance(function.value, ast.Name) and function.value.id == "os"
        return of_os or (len(call.args) == 1 and not call.keywords and name == "rename")
    return isinstance(function, ast.Attribute) and name in WRITING - {"replace", "rename"}

"""Files are written whole or not at all, and whatever fails is explained."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import BinaryIO

import pytest

from coterie.errors import StorageError
from coterie.storage.files import PARTIAL, explain_errors, make_folder, write_atomically, write_text


def writer(name: str, content: bytes):
    def write(file: BinaryIO) -> str:
        file.write(content)
        return name

    return write


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_appears_under_the_name_its_writer_returns(tmp_path):
    path = write_atomically(tmp_path, writer("result.bin", b"content"))
    assert path == tmp_path / "result.bin"
    assert path.read_bytes() == b"content"
    assert names_in(tmp_path) == ["result.bin"]


def test_an_old_file_is_replaced(tmp_path):
    write_atomically(tmp_path, writer("result.bin", b"a long old content"))
    write_atomically(tmp_path, writer("result.bin", b"new"))
    assert (tmp_path / "result.bin").read_bytes() == b"new"


def test_while_it_is_written_only_the_old_file_and_a_partial_one_are_there(tmp_path):
    (tmp_path / "result.bin").write_bytes(b"old")
    seen = []

    def write(file: BinaryIO) -> str:
        file.write(b"x" * 100_000)
        seen.extend(names_in(tmp_path))
        seen.append((tmp_path / "result.bin").read_bytes())
        return "result.bin"

    write_atomically(tmp_path, write)
    assert seen == [f"{os.getpid()}{PARTIAL}", "result.bin", b"old"]
    assert names_in(tmp_path) == ["result.bin"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, RuntimeError])
def test_when_the_writer_fails_the_old_file_stays_and_nothing_is_left_behind(tmp_path, error):
    (tmp_path / "result.bin").write_bytes(b"old")

    def write(file: BinaryIO) -> str:
        file.write(b"half of the new")
        file.flush()
        raise error("in the middle")

    with pytest.raises(error, match="in the middle"):
        write_atomically(tmp_path, write)
    assert names_in(tmp_path) == ["result.bin"]
    assert (tmp_path / "result.bin").read_bytes() == b"old"


def test_an_operating_system_error_of_the_writer_is_explained(tmp_path):
    def write(file: BinaryIO) -> str:
        file.write(b"half")
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with pytest.raises(StorageError, match=r"Cannot write to .*: Input/output error\."):
        write_atomically(tmp_path, write)
    assert names_in(tmp_path) == []


def test_a_killed_writer_leaves_the_old_file(tmp_path):
    script = textwrap.dedent(
        """
        import os, signal, sys
        from pathlib import Path
        from coterie.storage.files import write_atomically

        def write(file):
            file.write(b"half of the new")
            file.flush()
            os.kill(os.getpid(), signal.SIGKILL)
            return "result.bin"

        write_atomically(Path(sys.argv[1]), write)
        """
    )
    (tmp_path / "result.bin").write_bytes(b"old")
    done = subprocess.run([sys.executable, "-c", script, tmp_path], check=False, timeout=60)
    assert done.returncode == -9
    assert (tmp_path / "result.bin").read_bytes() == b"old"
    assert [name for name in names_in(tmp_path) if not name.endswith(PARTIAL)] == ["result.bin"]


FULL_DISK = """
import resource, sys
from pathlib import Path
import numpy as np
import pyarrow as pa
from coterie.errors import StorageError
from coterie.runtime.checkpoints import Checkpoints
from coterie.runtime.recorder import _write
from coterie.storage.files import write_text

folder = Path(sys.argv[1])
noise = np.random.default_rng(0).random(100_000)
ways = {
    "text": lambda: write_text(folder / "old.txt", "new " * 100_000),
    "checkpoint": lambda: Checkpoints(folder).write(2, {"models": noise}),
    "table": lambda: _write(folder, "old.parquet", pa.table({"values": noise})),
}
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
try:
    ways[sys.argv[2]]()
except StorageError as error:
    print(error)
"""


@pytest.mark.parametrize("way", ["text", "checkpoint", "table"])
def test_a_full_disk_is_explained_and_the_old_file_stays(tmp_path, way):
    for name in ("old.txt", "old.parquet"):
        (tmp_path / name).write_text("old")
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, tmp_path, way],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert f"Cannot write to {tmp_path}: " in done.stdout
    assert "Free some space" in done.stdout
    assert "that were saved before are intact" in done.stdout
    assert names_in(tmp_path) == ["old.parquet", "old.txt"]
    assert (tmp_path / "old.txt").read_text() == "old"
    assert (tmp_path / "old.parquet").read_text() == "old"


def test_a_folder_that_does_not_exist_is_reported(tmp_path):
    with pytest.raises(StorageError, match=r"Cannot write to .*nowhere: No such file"):
        write_atomically(tmp_path / "nowhere", writer("x", b""))
    assert names_in(tmp_path) == []


def test_a_file_in_place_of_the_folder_is_reported(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(StorageError, match=r"Cannot write to .*file: Not a directory"):
        write_atomically(tmp_path / "file", writer("x", b""))
    assert (tmp_path / "file").read_text() == "mine"


def test_a_folder_in_place_of_the_file_is_reported(tmp_path):
    (tmp_path / "result").mkdir()
    with pytest.raises(StorageError, match="Is a directory"):
        write_text(tmp_path / "result", "text")
    assert names_in(tmp_path) == ["result"]


def test_text_is_written_as_utf_8_with_its_line_ends(tmp_path):
    write_text(tmp_path / "a.txt", "Größe\r\n∑\n")
    assert (tmp_path / "a.txt").read_bytes() == "Größe\r\n∑\n".encode()


def test_folders_are_made_with_their_parents_and_may_be_there(tmp_path):
    for _ in range(2):
        make_folder(tmp_path / "a" / "b" / "c")
    assert (tmp_path / "a" / "b" / "c").is_dir()


@pytest.mark.parametrize("below", ["", "sub", "sub/sub"])
def test_a_folder_under_a_file_cannot_be_made(tmp_path, below):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(StorageError, match="Cannot create the folder"):
        make_folder(tmp_path / "file" / below)
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize(
    ("number", "advice"),
    [
        (errno.ENOSPC, "Free some space"),
        (errno.EDQUOT, "Free some space"),
        (errno.EFBIG, "Free some space"),
        (errno.EACCES, "Choose a folder you may write to"),
        (errno.EROFS, "Choose a folder you may write to"),
        (errno.EPERM, "Choose a folder you may write to"),
    ],
)
def test_errors_come_with_advice(number, advice):
    with pytest.raises(StorageError) as caught, explain_errors("do it"):
        raise OSError(number, os.strerror(number))
    assert str(caught.value).startswith(f"Cannot do it: {os.strerror(number)}. ")
    assert advice in str(caught.value)
    assert isinstance(caught.value.__cause__, OSError)


def test_an_error_without_a_number_is_explained_by_its_text():
    with pytest.raises(StorageError, match=r"Cannot do it: broken\."), explain_errors("do it"):
        raise OSError("broken")


def test_other_errors_are_not_touched():
    with pytest.raises(KeyError, match="mine"), explain_errors("do it"):
        raise KeyError("mine")

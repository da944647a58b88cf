"""Local copies, downloads that arrive whole or not at all, and errors that help."""

import hashlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from coterie.data.sources import (
    RemoteFile,
    default_data_root,
    download_or_explain,
    explain_read_errors,
    first_file,
    first_folder,
    verify_md5,
)
from coterie.errors import DataError

CONTENT = bytes(range(256)) * 600
MD5 = hashlib.md5(CONTENT, usedforsecurity=False).hexdigest()


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/missing":
            self.send_error(404)
            return
        body = {"/whole": CONTENT, "/truncated": CONTENT[:1000], "/other": b"other" * 9}[self.path]
        self.send_response(200)
        length = len(CONTENT) if self.path == "/truncated" else len(body)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


@pytest.fixture
def server():
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def _online(monkeypatch):
    monkeypatch.delenv("COTERIE_OFFLINE", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def _fetch(url, folder):
    remote = RemoteFile(url, MD5, "data.bin")
    return download_or_explain("Example", remote, folder, [folder / "data.bin", folder / "other"])


def test_download_arrives_whole_under_its_name(server, tmp_path, capfd):
    path = _fetch(f"{server}/whole", tmp_path / "new" / "folder")
    assert path == tmp_path / "new" / "folder" / "data.bin"
    assert path.read_bytes() == CONTENT
    assert [entry.name for entry in path.parent.iterdir()] == ["data.bin"]
    assert capfd.readouterr() == ("", "")


def test_download_into_a_relative_folder_stays_there(server, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _fetch(f"{server}/whole", Path("here"))
    assert (tmp_path / "here" / "data.bin").read_bytes() == CONTENT


def test_progress_is_shown_on_a_terminal(server, tmp_path, monkeypatch, capfd):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    path = _fetch(f"{server}/whole", tmp_path)
    assert path.read_bytes() == CONTENT
    assert "data.bin" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("page", "reason"), [("other", "does not match"), ("truncated", "failed"), ("missing", "404")]
)
def test_failed_download_leaves_no_file_and_says_all(server, tmp_path, page, reason):
    with pytest.raises(DataError) as caught:
        _fetch(f"{server}/{page}", tmp_path)
    message = str(caught.value)
    assert reason in message
    for helpful in (f"{server}/{page}", str(tmp_path / "data.bin"), str(tmp_path / "other"), MD5):
        assert helpful in message
    assert "--data-root" in message
    assert "COTERIE_DATA" in message
    assert list(tmp_path.iterdir()) == []


def test_refused_connection_is_a_data_error(tmp_path):
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as closed:
        port = closed.server_port
    with pytest.raises(DataError, match=f"Downloading http://127.0.0.1:{port}/whole failed"):
        _fetch(f"http://127.0.0.1:{port}/whole", tmp_path)


def test_unusable_folder_is_a_data_error(server, tmp_path):
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(DataError, match="failed"):
        _fetch(f"{server}/whole", tmp_path / "file")


def test_offline_does_not_try(server, tmp_path, monkeypatch):
    monkeypatch.setenv("COTERIE_OFFLINE", "1")
    with pytest.raises(DataError, match="COTERIE_OFFLINE"):
        _fetch(f"{server}/whole", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_data_root_follows_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("COTERIE_DATA", "~/mine")
    assert default_data_root() == tmp_path / "mine"
    monkeypatch.delenv("COTERIE_DATA")
    assert default_data_root() == tmp_path / ".cache" / "coterie" / "data"


def test_first_existing_wins(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    candidates = [tmp_path / "absent", tmp_path / "folder", tmp_path / "file"]
    assert first_file(candidates) == tmp_path / "file"
    assert first_folder(candidates) == tmp_path / "folder"
    assert first_file([tmp_path / "absent"]) is None


def test_checksum_mismatch_names_both(tmp_path):
    path = tmp_path / "data.bin"
    remote = RemoteFile("http://example.org/data.bin", MD5, "data.bin")
    path.write_bytes(CONTENT)
    verify_md5(path, remote)
    path.write_bytes(b"half")
    found = hashlib.md5(b"half", usedforsecurity=False).hexdigest()
    with pytest.raises(DataError, match=f"expected md5 {MD5}, found {found}.*truncated") as caught:
        verify_md5(path, remote)
    assert str(path) in str(caught.value)


def test_reading_names_a_problem_without_words(tmp_path):
    with (
        pytest.raises(DataError, match="EOFError"),
        explain_read_errors(tmp_path / "x", "something"),
    ):
        raise EOFError

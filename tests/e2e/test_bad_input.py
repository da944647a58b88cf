"""Mistakes on the command line: one clear message, the right exit code, nothing lost."""

from __future__ import annotations

import gzip
import hashlib
import io
import resource
import shlex
import shutil
import signal
import struct
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from commands import Answer, contents, coterie, end, start

from coterie.data.cifar import CIFAR10
from coterie.data.idx import MNIST
from coterie.presets import PRESETS
from coterie.simulation.records import read_table

RANDOM = ("--strategy", "random", "--set", "strategy.fetches=2")
SMALL = ("--peers", 8, "--rounds", 2, "--threads", 1, *RANDOM)
LONG = (*SMALL, "--rounds", 12, "--set", "checkpoint_every=1")
JARGON = (
    "Traceback",
    "pydantic",
    "Input tag",
    "discriminator",
    "extract fields",
    "instance of",
    "not iterable",
    "indices must",
    "[Errno",
    "allow_pickle",
)


def plain(text: str) -> str:
    """Return a message without the frame some are printed in and without line breaks."""
    return " ".join(text.replace("│", " ").split())


def refused(answer: Answer, code: int, *parts: object) -> str:
    """Check that there is one message of this exit code with all these parts; return it."""
    message = plain(answer.err)
    assert answer.code == code, answer
    for part in parts:
        assert str(part) in message
    for word in JARGON:
        assert word not in message
    assert message.count("Error") == 1
    assert answer.out == ""
    return message


def run_with(tmp_path: Path, *changes: str) -> Answer:
    """Run digits with settings changed by --set."""
    options = [part for change in changes for part in ("--set", change)]
    return coterie("run", *SMALL, *options, "--out", tmp_path / "out")


# Names and settings


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (("run", "digitz"), ("'digitz'", "Did you mean 'digits'", *PRESETS)),
        (("run", "--strategy", "orcle"), ("'orcle'", "Did you mean 'oracle'", "gossip")),
        (("run", "--strategy", "random,"), ("strategy", "Known:", "gossip")),
        (("run", "--nope"), ("--nope",)),
        (("rnu",), ("'rnu'", "Did you mean 'run'")),
        (("resume",), ("Missing argument",)),
    ],
)
def test_unknown_names(arguments, parts, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    refused(coterie(*arguments), 2, *parts)
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ("strategy.fetchez=1", ("random", "'fetchez'", "Did you mean 'fetches'")),
        ("roundz=3", ("'roundz'", "Did you mean 'rounds'")),
        ("training.epochz=3", ("'training.epochz'", "Did you mean 'epochs'")),
        ("trainingg.epochs=3", ("'trainingg'", "Did you mean 'training'")),
        ("training.adam.beta=3", ("'training.adam'", "optimizer")),
        ("shift.anglez=[1]", ("'shift.anglez'", "Did you mean 'angles'")),
        ("drift={kind: random, every: 2, evry: 2}", ("'drift.evry'", "Did you mean 'every'")),
        ("peers.sizes={kind: skewed, exponnt: 2}", ("'peers.sizes.exponnt'", "'exponent'")),
        ("shift.kind=rotatoin", ("shift.kind", "'rotatoin'", "Did you mean 'rotation'")),
        ("shift={kind: lables}", ("shift.kind", "'lables'", "Did you mean 'labels'")),
        ("peers.sizes.kind=skwed", ("peers.sizes.kind", "'skwed'", "Did you mean 'skewed'")),
        ("model.name=digits-cn", ("'digits-cn'", "Did you mean 'digits-cnn'")),
        ("data.datasets=[digitz]", ("'digitz'", "Did you mean 'digits'", ".npz")),
    ],
)
def test_a_misspelt_setting_names_the_nearest(tmp_path, change, parts):
    refused(run_with(tmp_path, change), 2, *parts)


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ("training.epochs=many", ("training.epochs", "'many'", "integer")),
        ("training.epochs=1.5", ("training.epochs", "1.5", "integer")),
        ("training.epochs=", ("training.epochs", "integer")),
        ("training.epochs=0", ("training.epochs", "0", "greater than or equal to 1")),
        ("training.epochs.x=3", ("training.epochs",)),
        ("training.optimizer=sdg", ("training.optimizer", "'sdg'", "'sgd'")),
        ("training.learning_rate=.nan", ("training.learning_rate", "nan", "finite")),
        ("training.learning_rate=-1", ("training.learning_rate", "-1", "greater than 0")),
        ("strategy.fetches=few", ("strategy.fetches", "'few'", "integer")),
        ("training=5", ("training", "5", "group")),
        ("shift=5", ("shift", "5", "kind")),
        ("shift={}", ("shift.kind", "rotation", "labels")),
        ("shift.kind=labels", ("'shift.groups'", "missing")),
        ("shift={kind: labels, groups: []}", ("shift.groups", "at least 1")),
        ("shift={kind: labels, groups: [[0, 1], []]}", ("shift.groups", "at least 1")),
        ("data.datasets=digits", ("data.datasets", "'digits'", "list")),
        ("peers.clusters=[1, 2]", ("peers.clusters", "2 shares", "4 clusters")),
        ("network.offline_trace=[{peer: 99, first_round: 1, last_round: 2}]", ("99", "0 to 7")),
        ("drift={kind: matrix, every: 1, matrix: [[0, 1], [9, 0]]}", ("drift", "9", "only 4")),
        ("drift={kind: matrix, every: 1, matrix: [[0, 1], [0]]}", ("drift.matrix", "equally")),
    ],
)
def test_a_value_that_cannot_work(tmp_path, change, parts):
    refused(run_with(tmp_path, change), 2, *parts)


@pytest.mark.parametrize("text", ["training", "=3", "training.epochs", ""])
def test_set_without_a_key_and_a_value(tmp_path, text):
    refused(run_with(tmp_path, text), 2, f"--set {text}", "key=value", "training.epochs=1")


@pytest.mark.parametrize("value", ["[1", "{a: b", "'", "!!python/name:os.system", "2020-13-45"])
def test_a_value_that_is_no_yaml(tmp_path, value):
    refused(run_with(tmp_path, f"training.epochs={value}"), 2, f"training.epochs={value}", "YAML")


@pytest.mark.parametrize("fetches", [8, 9, -1])
def test_more_fetches_than_there_are_others(tmp_path, fetches):
    answer = run_with(tmp_path, f"strategy.fetches={fetches}")
    refused(answer, 2, "strategy.fetches", fetches, "8 peers", "at most 7")


@pytest.mark.parametrize("peers", [0, -3])
def test_no_peers(tmp_path, peers):
    answer = coterie("run", *SMALL, "--peers", peers, "--out", tmp_path / "out")
    refused(answer, 2, "peers", peers, "greater than or equal to 1")


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--threads", "0"),
        ("--threads", "-1"),
        ("--seed", "-1"),
        ("--seed", "1,2"),
        ("--seeds", "0"),
        ("--seeds", "1,2,3"),
        ("--rounds", "-1"),
        ("--rounds", "ten"),
        ("--peers", "8.5"),
    ],
)
def test_a_number_that_is_none(tmp_path, option, value):
    answer = coterie("run", *SMALL, option, value, "--out", tmp_path / "out")
    refused(answer, 2, f"'{option}'", "Input should be")
    assert not (tmp_path / "out").exists()


def test_a_strategy_named_twice(tmp_path):
    """Both would write to one folder, and count as two seeds with a confidence interval of 0."""
    answer = coterie("run", *SMALL, "--strategy", "random,oracle,random", "--out", tmp_path / "out")
    refused(answer, 2, "random", "once")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("change", "instead"),
    [
        ("seed=3", "--seed"),
        ("label=../../elsewhere", "label"),
        ("strategy.name=oracle", "--strategy"),
        ("strategy=oracle", "--strategy"),
        ("strategy={name: oracle}", "--strategy"),
    ],
)
def test_what_identifies_a_run_cannot_be_set(tmp_path, change, instead):
    """A label names a folder, and must say what was run."""
    refused(run_with(tmp_path, change), 2, change.partition("=")[0], instead)
    assert not any(tmp_path.iterdir())


# Data


def test_a_label_without_images(tmp_path):
    answer = run_with(tmp_path, "shift={kind: labels, groups: [[0, 1], [17]]}")
    refused(answer, 3, "label 17", "digits", "from 0 to 9")


def test_more_images_than_there_are(tmp_path):
    answer = run_with(tmp_path, "peers.train_size=5000")
    refused(answer, 3, "40,080", "only 1,438", "peers.train_size", "peers.count")


def test_more_images_of_some_labels_than_there_are(tmp_path):
    shift = "shift={kind: labels, groups: [[0, 1], [2, 3]]}"
    refused(run_with(tmp_path, shift, "peers.train_size=100"), 3, "440", "only 288", "[0, 1]")


@pytest.mark.parametrize("model", ["cifar-cnn", "linear", "resnet-18"])
def test_a_model_that_does_not_fit(tmp_path, model):
    refused(run_with(tmp_path, f"model.name={model}"), 2, f"'{model}'", "1×8×8", "expects")


def test_accuracies_of_a_regression(tmp_path):
    answer = coterie(
        *("run", "friends-synthetic", *SMALL, "--set", "best_by=accuracy"),
        *("--out", tmp_path / "out"),
    )
    refused(answer, 2, "best_by", "loss")


def broken_npz(folder: Path) -> dict[str, Path]:
    """Write files that are all wrong in another way."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 255, (400, 8, 8), dtype=np.uint8)
    labels = rng.integers(0, 10, 400)
    holed = images / np.float32(255)
    holed[5, 2, 3] = np.nan
    arrays = {
        "flat": {"x_train": images.reshape(400, 64), "y_train": labels},
        "small": {"x_train": images[:, :2, :2], "y_train": labels},
        "holed": {"x_train": holed, "y_train": labels},
        "nameless": {"x_trian": images, "y_train": labels},
        "fewer": {"x_train": images, "y_train": labels[:3]},
        "half": {"x_train": images, "y_train": labels, "x_test": images},
        "negative": {"x_train": images, "y_train": labels - 1},
    }
    paths = {name: folder / f"{name}.npz" for name in (*arrays, "text", "cut", "absent")}
    for name, members in arrays.items():
        np.savez(paths[name], **members)
    paths["text"].write_text("hello")
    paths["cut"].write_bytes(paths["fewer"].read_bytes()[:-100])
    return paths


@pytest.mark.parametrize(
    ("name", "code", "parts"),
    [
        ("flat", 3, ("(400, 64)", "expected", "(n, H, W)")),
        ("small", 2, ("digits-cnn", "1×2×2", "1×8×8")),
        ("holed", 3, ("holed.npz", "1 of 400", "NaN", "sample 5")),
        ("nameless", 3, ("nameless.npz", "x_train", "x_trian")),
        ("fewer", 3, ("fewer.npz", "400", "3")),
        ("half", 3, ("half.npz", "y_test")),
        ("negative", 3, ("negative", "-1")),
        ("text", 3, ("text.npz", "Expected a .npz archive")),
        ("cut", 3, ("cut.npz", "Expected a .npz archive")),
        ("absent", 3, ("absent.npz", "not found", "--data-root")),
    ],
)
def test_broken_files_of_ones_own(tmp_path, name, code, parts):
    path = broken_npz(tmp_path)[name]
    message = refused(run_with(tmp_path, f"data.datasets=[{path}]"), code, *parts)
    assert "Did you mean 'y_train'" not in message


@pytest.fixture
def data_root(tmp_path, monkeypatch) -> Path:
    """Return an empty data root, with downloads forbidden."""
    monkeypatch.setenv("COTERIE_OFFLINE", "1")
    root = tmp_path / "data"
    root.mkdir()
    return root


def run_preset(preset: str, root: Path | str) -> Answer:
    """Run a preset that needs data from a root."""
    out = Path(root).parent / "out" if isinstance(root, Path) else "out"
    return coterie("run", preset, *SMALL, "--data-root", root, "--out", out)


def test_data_that_are_not_there(data_root):
    archive = CIFAR10.binary.archive
    message = refused(run_preset("dac-cifar-rotation4", data_root), 3, "CIFAR-10", "COTERIE_DATA")
    for name in (CIFAR10.binary.folder, CIFAR10.python.folder, archive.file_name):
        assert str(data_root / name) in message
    assert f"Download {archive.url} (md5 {archive.md5}) yourself" in message
    assert f"put it at {data_root / archive.file_name}" in message
    assert "COTERIE_OFFLINE" in message


@pytest.mark.parametrize(
    ("preset", "parts"),
    [
        ("friends-mnist-fashion", ("MNIST", MNIST.train_images.url, "mnist/train-images-idx3")),
        ("hast-pacs", ("PACS", "pacs/PACS/photo", "https://domaingeneralization.github.io")),
    ],
)
def test_other_data_that_are_not_there(data_root, preset, parts):
    refused(run_preset(preset, data_root), 3, *parts, data_root, "--data-root")


def test_a_data_root_that_does_not_exist(data_root):
    refused(run_preset("dac-cifar-rotation4", data_root / "no"), 3, data_root / "no", "CIFAR-10")


def test_a_data_root_in_the_home_of_nobody(tmp_path, monkeypatch):
    monkeypatch.setenv("COTERIE_OFFLINE", "1")
    monkeypatch.chdir(tmp_path)
    answer = run_preset("dac-cifar-rotation4", "~nobody-of-this-name/data")
    assert answer.code in (2, 3)
    refused(answer, answer.code, "~nobody-of-this-name/data")


def write_cifar(root: Path) -> Path:
    """Write a small CIFAR-10 in the binary version."""
    folder = root / CIFAR10.binary.folder
    folder.mkdir()
    records = np.random.default_rng(0).integers(0, 10, (200, 3073), dtype=np.uint8)
    for name in CIFAR10.binary.data_files:
        (folder / name).write_bytes(records.tobytes())
    return folder


def test_a_truncated_cifar_file(data_root):
    path = write_cifar(data_root) / "data_batch_3.bin"
    path.write_bytes(path.read_bytes()[:-100])
    answer = run_preset("dac-cifar-rotation4", data_root)
    refused(answer, 3, path, "614500 bytes", "3073", "truncated", CIFAR10.binary.archive.url)


def test_a_cifar_folder_that_lacks_a_file(data_root):
    path = write_cifar(data_root) / "data_batch_3.bin"
    path.unlink()
    answer = run_preset("dac-cifar-rotation4", data_root)
    refused(answer, 3, path.parent, "lacks data_batch_3.bin", CIFAR10.binary.archive.url)


@pytest.mark.parametrize("is_whole", [True, False])
def test_an_archive_that_is_not_the_official_one(data_root, is_whole):
    """Whole but different, or cut off: the checksum tells."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as tar:
        tar.add(write_cifar(data_root), CIFAR10.binary.folder)
    shutil.rmtree(data_root / CIFAR10.binary.folder)
    path = data_root / CIFAR10.binary.archive.file_name
    path.write_bytes(content.getvalue() if is_whole else content.getvalue()[:-1000])
    found = hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()
    answer = run_preset("dac-cifar-rotation4", data_root)
    refused(answer, 3, path, found, CIFAR10.binary.archive.md5, "Delete it")


def test_a_truncated_mnist_file(data_root):
    folder = data_root / "mnist"
    folder.mkdir()
    images = struct.pack(">4B3I", 0, 0, 8, 3, 50, 28, 28) + bytes(50 * 28 * 28)
    path = folder / MNIST.train_images.file_name
    path.write_bytes(gzip.compress(images)[:-10])
    refused(run_preset("friends-mnist-fashion", data_root), 3, path, "damaged", "replace it")


@pytest.mark.parametrize(
    "change",
    [
        "shift={kind: labels, groups: [[17]]}",
        "model.name=linear",
        "data.datasets=[absent.npz]",
        "peers.train_size=5000",
    ],
)
def test_a_mistake_leaves_no_folder_behind(tmp_path, change):
    """Else the corrected command is refused, and `resume` repeats the mistake."""
    assert run_with(tmp_path, change).code in (2, 3)
    assert not (tmp_path / "out").exists()


# Output folders


def test_the_output_folder_is_a_file(tmp_path):
    (tmp_path / "out").write_text("mine")
    message = refused(run_with(tmp_path), 4, tmp_path / "out", "file", "another")
    assert "empty" not in message
    assert (tmp_path / "out").read_text() == "mine"


@pytest.mark.parametrize("place", ["file/out", "/proc/nobody/out", "x" * 300])
def test_the_output_folder_cannot_be_made(tmp_path, place):
    (tmp_path / "file").write_text("mine")
    answer = coterie("run", *SMALL, "--out", tmp_path / place)
    refused(answer, 4, tmp_path / place, "--out")


def test_the_output_folder_holds_another_run(finished, tmp_path):
    folder = shutil.copytree(finished, tmp_path / "my run")
    before = contents(folder)
    answer = coterie("run", *SMALL, "--out", folder)
    message = refused(answer, 4, folder, "holds another run", "choose another")
    assert shlex.join(["coterie", "resume", str(folder)]) in message
    assert contents(folder) == before


def test_the_output_folder_holds_something_else(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.tex").write_text("mine")
    message = refused(run_with(tmp_path), 4, tmp_path / "out", "not empty", "another")
    assert "resume" not in message
    assert contents(tmp_path / "out") == {"thesis.tex": b"mine"}


# Resuming


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """Return the folder of a finished experiment; tests work on copies."""
    folder = tmp_path_factory.mktemp("finished") / "out"
    assert coterie("run", *SMALL, "--out", folder).code == 0
    return folder


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> dict[str, bytes]:
    """Return the tables and models of a longer run that nobody disturbed."""
    folder = tmp_path_factory.mktemp("undisturbed") / "out"
    assert coterie("run", *LONG, "--out", folder).code == 0
    return results(folder)


def results(folder: Path) -> dict[str, bytes]:
    """Return what must not depend on interruptions."""
    names = ("metrics", "exchanges", "neighbours")
    files = [f"{name}.parquet" for name in names] + ["models.safetensors"]
    return {name: (folder / "random-seed0" / name).read_bytes() for name in files}


def test_resuming_what_is_finished_prints_the_table_again(finished, tmp_path):
    folder = shutil.copytree(finished, tmp_path / "out")
    before = contents(folder)
    first, second = coterie("resume", folder), coterie("resume", folder / "random-seed0")
    assert (first.code, second.code) == (0, 0)
    assert "│ random" in first.out
    assert first.out.splitlines()[:-1] == second.out.splitlines()[:-1]
    assert contents(folder) == before


def test_resuming_no_run(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("mine")
    for name in ("empty", "file"):
        answer = coterie("resume", tmp_path / name)
        refused(answer, 4, tmp_path / name, "experiment.yaml", "config.yaml")
    assert not any((tmp_path / "empty").iterdir())


@pytest.mark.parametrize("name", ["nothing", "x" * 300])
def test_resuming_a_folder_that_does_not_exist(tmp_path, name):
    """To say what it lacks would send the user looking in a folder that is not there."""
    answer = coterie("resume", tmp_path / name)
    message = refused(answer, 4, tmp_path / name)
    assert "neither" not in message
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"{", 4),
        (b"\xff\xfe\x00", 4),
        (b"5", None),
        (b"", None),
        (b"peers: {count: 8}", None),
        (b"peers: {count: 8, train_size: 1, validation_size: 1}\nroundz: 3", None),
    ],
)
def test_resuming_with_a_broken_configuration(finished, tmp_path, content, code):
    """Whether it counts as a setting or as a file, the message names the file."""
    folder = shutil.copytree(finished, tmp_path / "out")
    path = folder / "random-seed0" / "config.yaml"
    path.write_bytes(content)
    before = contents(folder)
    answer = coterie("resume", folder)
    assert answer.code in ((code,) if code else (2, 4))
    refused(answer, answer.code, path)
    assert contents(folder) == before


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b"\xff\xfe\x00",
        b"",
        b"[]",
        b"runs: 5",
        b"runs: random-seed0",
        b"runs: []",
        b"runs: [../elsewhere]",
        b"runs: [..]",
        b"runs: ['']",
    ],
)
def test_resuming_with_a_broken_list_of_runs(finished, tmp_path, content):
    shutil.copytree(finished / "random-seed0", tmp_path / "elsewhere")
    shutil.copy(finished / "random-seed0" / "config.yaml", tmp_path)
    folder = shutil.copytree(finished, tmp_path / "out")
    (folder / "experiment.yaml").write_bytes(content)
    before = contents(tmp_path)
    refused(coterie("resume", folder), 4, folder / "experiment.yaml")
    assert contents(tmp_path) == before


def test_resuming_with_a_run_that_is_not_there(finished, tmp_path):
    folder = shutil.copytree(finished, tmp_path / "out")
    (folder / "experiment.yaml").write_text("runs: [random-seed0, random-seed7]")
    refused(coterie("resume", folder), 4, folder / "random-seed7")


def test_resuming_with_a_broken_summary(finished, tmp_path):
    folder = shutil.copytree(finished, tmp_path / "out")
    path = folder / "random-seed0" / "summary.json"
    path.write_text("{")
    refused(coterie("resume", folder), 4, path, "Delete it")
    path.unlink()
    assert coterie("resume", folder, "--threads", 1).code == 0
    assert results(folder) == results(finished)


# Training


def test_training_diverges_at_once(tmp_path):
    answer = run_with(tmp_path, "training.learning_rate=1e30", "training.optimizer=sgd")
    refused(answer, 5, "diverged in round 0", "peer 0", "training.learning_rate", "1e+30")


@pytest.fixture(scope="module")
def diverged(tmp_path_factory) -> tuple[Path, Answer]:
    """Return the folder of a run that diverges after some rounds, and its message."""
    folder = tmp_path_factory.mktemp("diverged") / "out"
    answer = coterie(
        *("run", "friends-synthetic", *LONG, "--set", "training.learning_rate=0.05"),
        *("--out", folder),
    )
    return folder, answer


def last_round(folder: Path) -> int:
    """Return the last round recorded; there is a gap nowhere before it."""
    metrics = read_table(folder / "random-seed0", "metrics")
    rounds = np.unique(metrics["round"].to_numpy()).tolist()
    assert rounds == list(range(len(rounds)))
    assert np.isfinite(metrics["validation_loss_trained"].to_numpy()).all()
    return rounds[-1]


def test_training_diverges_later(diverged):
    """What was recorded before stays readable; to resume would only diverge again."""
    folder, answer = diverged
    assert last_round(folder) >= 2
    message = refused(answer, 5, f"diverged in round {last_round(folder) + 1}", "learning_rate")
    assert "coterie resume" not in message


def test_resuming_what_diverged_diverges_again(diverged, tmp_path):
    folder = shutil.copytree(diverged[0], tmp_path / "out")
    answer = coterie("resume", folder, "--threads", 1)
    refused(answer, 5, f"diverged in round {last_round(diverged[0]) + 1}")
    assert last_round(folder) == last_round(diverged[0])


def test_all_checkpoints_are_damaged(diverged, tmp_path):
    folder = shutil.copytree(diverged[0], tmp_path / "out")
    checkpoints = list((folder / "random-seed0" / "checkpoints").iterdir())
    assert len(checkpoints) == 2
    for path in checkpoints:
        path.write_bytes(path.read_bytes()[:-1])
    answer = coterie("resume", folder, "--threads", 1)
    message = refused(answer, 4, *checkpoints, "All 2 checkpoints", "another folder")
    assert "coterie resume" not in message
    assert last_round(folder) == last_round(diverged[0])


# Interruptions, in processes of their own


def wait_for(is_there: Callable[[], object], process) -> None:
    """Wait until something has happened in a process that goes on."""
    while not is_there():
        assert process.poll() is None, process.communicate()
        time.sleep(0.002)


def first_checkpoint(folder: Path) -> Callable[[], object]:
    """Return whether a run has written its first checkpoint."""
    return lambda: list((folder / "random-seed0" / "checkpoints").glob("round-*.safetensors"))


def test_ctrl_c_and_resume(undisturbed, tmp_path):
    folder = tmp_path / "my run [old]"
    process = start("run", *LONG, "--out", folder)
    wait_for(first_checkpoint(folder), process)
    process.send_signal(signal.SIGINT)
    stopped = end(process)
    assert stopped.code == 130
    assert "Finishing this round" in stopped.err
    assert "Stopped by Ctrl-C after round" in stopped.err
    assert shlex.join(["coterie", "resume", str(folder)]) in stopped.err
    assert "Traceback" not in stopped.err
    assert stopped.out == ""
    resumed = coterie("resume", folder, "--threads", 1)
    assert resumed.code == 0, resumed.err
    assert "│ random" in resumed.out
    assert results(folder) == undisturbed


def test_ctrl_c_before_the_first_round(undisturbed, tmp_path):
    folder = tmp_path / "out"
    process = start("run", *LONG, "--out", folder)
    wait_for((folder / "experiment.yaml").exists, process)
    process.send_signal(signal.SIGINT)
    stopped = end(process)
    assert stopped.code == 130
    assert "Stopped by Ctrl-C" in stopped.err
    assert f"coterie resume {folder}" in stopped.err
    assert "Traceback" not in stopped.err
    assert coterie("resume", folder, "--threads", 1).code == 0
    assert results(folder) == undisturbed


def test_ctrl_c_during_start_up(tmp_path):
    """While torch is being imported, which takes longest."""
    process = start("run", *LONG, "--out", tmp_path / "out")
    maps = Path(f"/proc/{process.pid}/maps")
    wait_for(lambda: "libtorch_cpu" in maps.read_text(), process)
    process.send_signal(signal.SIGINT)
    stopped = end(process)
    assert stopped.code == 130
    assert "Stopped by Ctrl-C" in stopped.err
    assert "Traceback" not in stopped.err
    assert not (tmp_path / "out").exists()


def test_the_disk_is_full(undisturbed, tmp_path):
    """Tables still fit but checkpoints do not, from the second one on."""
    folder = tmp_path / "out"
    process = start("run", *LONG, "--out", folder)
    wait_for(first_checkpoint(folder), process)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
    stopped = end(process)
    checkpoints = folder / "random-seed0" / "checkpoints"
    refused(stopped, 4, f"write to {checkpoints}", "room on the disk", f"coterie resume {folder}")
    kept = [path.name for path in checkpoints.iterdir()]
    assert kept
    assert all(name.endswith(".safetensors") for name in kept)
    assert read_table(folder / "random-seed0", "metrics").num_rows >= 2 * 8
    assert coterie("resume", folder, "--threads", 1).code == 0
    assert results(folder) == undisturbed

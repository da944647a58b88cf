"""Pretrained weights are read without running anything the file says."""

import subprocess
import sys
import zipfile
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from coterie.errors import DataError
from coterie.models.checkpoint_file import read_checkpoint
from coterie.models.imagenet import RESNET18_URL, load_imagenet_weights
from coterie.models.resnet import ResNet18
from coterie.models.vector import FlatModule

FORMATS = {"zip": True, "legacy": False}


class Small(nn.Module):
    """Has the kinds of tensors a ResNet has, and its classifier's name."""

    def __init__(self, outputs, seed=0):
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.conv1 = nn.Conv2d(3, 4, 3, bias=False)
            self.bn1 = nn.BatchNorm2d(4)
            self.fc = nn.Linear(4, outputs)
            nn.init.normal_(self.bn1.running_mean)


def save(state, path, file_format="zip"):
    torch.save(state, path, _use_new_zipfile_serialization=FORMATS[file_format])
    return path


def load(path, module):
    load_imagenet_weights(path, module, sha256_prefix="")


def assert_equal_states(found, expected, names=None):
    for name in names or expected:
        assert torch.equal(found[name], expected[name]), name


def write_zip(path, pickle, storages=(), compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("archive/data.pkl", pickle)
        for key, values in storages:
            archive.writestr(f"archive/data/{key}", values)
    return path


LEGACY_HEADER = (
    b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."
    b"\x80\x02M\xe9\x03."
    b"\x80\x02}X\x0d\x00\x00\x00little_endian\x88s."
)


@pytest.mark.parametrize("file_format", FORMATS)
def test_a_whole_resnet_is_loaded_and_keeps_its_own_classifier(tmp_path, file_format):
    pretrained, module = ResNet18(1000), ResNet18(10)
    with torch.no_grad():
        pretrained.bn1.running_var.uniform_()
    own = module.fc.weight.detach().clone()
    load(save(pretrained.state_dict(), tmp_path / "weights.pth", file_format), module)
    names = [name for name in pretrained.state_dict() if not name.startswith("fc.")]
    assert len(names) == 120
    assert_equal_states(module.state_dict(), pretrained.state_dict(), names)
    assert torch.equal(module.fc.weight, own)


@pytest.mark.parametrize("file_format", FORMATS)
def test_a_classifier_of_the_same_size_is_loaded_too(tmp_path, file_format):
    pretrained, module = Small(5, seed=1), Small(5)
    load(save(pretrained.state_dict(), tmp_path / "weights.pth", file_format), module)
    assert_equal_states(module.state_dict(), pretrained.state_dict())


@pytest.mark.parametrize("file_format", FORMATS)
def test_files_of_parameters_without_batch_counters_are_read(tmp_path, file_format):
    pretrained, module = Small(5, seed=1), Small(5)
    state = OrderedDict(pretrained.named_parameters())
    state["bn1.running_mean"] = pretrained.bn1.running_mean
    state["bn1.running_var"] = pretrained.bn1.running_var
    load(save(state, tmp_path / "weights.pth", file_format), module)
    assert_equal_states(module.state_dict(), pretrained.state_dict())


def test_safetensors_files_are_read_without_a_hash(tmp_path):
    pretrained, module = Small(7, seed=1), Small(5)
    own = module.fc.bias.detach().clone()
    path = tmp_path / "weights.safetensors"
    save_file(pretrained.state_dict(), path)
    load_imagenet_weights(path, module)
    names = ["conv1.weight", "bn1.running_mean"]
    assert_equal_states(module.state_dict(), pretrained.state_dict(), names)
    assert torch.equal(module.fc.bias, own)


def test_damaged_safetensors_files_are_refused(tmp_path):
    path = tmp_path / "weights.safetensors"
    path.write_bytes(b"\x10\x00\x00\x00\x00\x00\x00\x00nonsense")
    with pytest.raises(DataError, match="not a readable safetensors file"):
        load_imagenet_weights(path, Small(5))


def test_loading_reaches_the_vector_of_a_flat_module(tmp_path):
    pretrained, flat = Small(5, seed=1), FlatModule(Small(5))
    load(save(pretrained.state_dict(), tmp_path / "weights.pth"), flat.module)
    np.testing.assert_array_equal(flat.flat.numpy(), FlatModule(pretrained).flat.numpy())


@pytest.mark.parametrize("file_format", FORMATS)
def test_views_into_shared_storages_are_cut_out_correctly(tmp_path, file_format):
    whole = torch.arange(24.0).reshape(4, 6)
    state = {
        "turned": whole.T,
        "part": whole[1:3, 2:5],
        "scalar": torch.tensor(3),
        "empty": torch.zeros(0, 3),
    }
    found = read_checkpoint(save(state, tmp_path / "weights.pth", file_format))
    assert found.keys() == state.keys()
    for name, values in state.items():
        np.testing.assert_array_equal(found[name], values.numpy())
        assert found[name].flags.owndata


def test_a_wrong_hash_is_refused_before_anything_is_read(tmp_path):
    path = save(Small(5).state_dict(), tmp_path / "weights.pth")
    with pytest.raises(DataError) as caught:
        load_imagenet_weights(path, Small(5))
    message = str(caught.value)
    assert "should begin with f37072fd, but begins with" in message
    assert RESNET18_URL in message


def test_a_missing_file_names_the_download(tmp_path):
    with pytest.raises(DataError, match=r"no weights file at .*f37072fd\.pth"):
        load(tmp_path / "absent.pth", Small(5))


@pytest.mark.parametrize("file_format", FORMATS)
def test_a_file_cut_anywhere_is_refused(tmp_path, file_format):
    whole = save(Small(5).state_dict(), tmp_path / "whole.pth", file_format).read_bytes()
    module = Small(5, seed=1)
    before = {name: values.clone() for name, values in module.state_dict().items()}
    path = tmp_path / "cut.pth"
    for length in [*range(0, len(whole), 97), len(whole) - 1]:
        path.write_bytes(whole[:length])
        with pytest.raises(DataError, match="cannot be read as a torch checkpoint"):
            load(path, module)
    assert_equal_states(module.state_dict(), before)


@pytest.mark.parametrize("file_format", FORMATS)
def test_a_file_with_changed_bytes_never_fails_otherwise(tmp_path, file_format):
    whole = save(Small(5).state_dict(), tmp_path / "whole.pth", file_format).read_bytes()
    path = tmp_path / "changed.pth"
    random = np.random.default_rng(0)
    refused = 0
    for _ in range(400):
        changed = bytearray(whole)
        changed[random.integers(len(whole))] = random.integers(256)
        path.write_bytes(changed)
        try:
            read_checkpoint(path)
        except DataError:
            refused += 1
    assert refused > 100


def malicious_pickle(marker: Path) -> bytes:
    code = f"open({str(marker)!r}, 'w').close()".encode()
    return b"\x80\x02cbuiltins\nexec\nX" + len(code).to_bytes(4, "little") + code + b"\x85R."


@pytest.mark.parametrize("file_format", FORMATS)
def test_a_malicious_file_is_refused_and_not_executed(tmp_path, file_format):
    marker = tmp_path / "executed"
    payload = malicious_pickle(marker)
    path = tmp_path / "weights.pth"
    if file_format == "zip":
        write_zip(path, payload)
    else:
        path.write_bytes(LEGACY_HEADER + payload)
    with pytest.raises(DataError, match="it names 'builtins exec'"):
        load(path, Small(5))
    assert not marker.exists()

    # The same bytes do run where they are unpickled.
    program = "import pickle, sys; pickle.load(sys.stdin.buffer)"
    subprocess.run([sys.executable, "-c", program], input=payload, check=True)
    assert marker.exists()


@pytest.mark.parametrize(
    ("pickle", "reason"),
    [
        (b"\x80\x02]\x85.", "does not hold a state dict"),
        (b"\x80\x02}X\x01\x00\x00\x00aK\x01s.", "entry 'a' is not a tensor"),
        (b"\x80\x02}K\x01K\x01s.", "name is not text"),
        (b"\x80\x02ctorch\nFloatStorage\n)R.", "not a known function"),
        (b"\x80\x02K\x01)R.", "not a known function"),
        (b"\x80\x02ccollections\nOrderedDict\nK\x01R.", "without a tuple"),
        (b"\x80\x02ccollections\nOrderedDict\n)\x81.", "instruction NEWOBJ"),
        (b"\x80\x04\x8c\x02os\x8c\x06system\x93.", "instruction STACK_GLOBAL"),
        (b"\x80\x02(X\x02\x00\x00\x00osX\x06\x00\x00\x00systemios\nsystem\n.", "instruction INST"),
        (b"\x80\x02K\x01Q.", "not a storage"),
        (b"\x80\x02K\x01K\x01K\x01s.", "not a dict"),
        (b"\x80\x02K\x01K\x01a.", "not a list"),
        (b"\x80\x02s.", "takes more values than it has"),
        (b"\x80\x02K\x01K\x01.", "does not come to one value"),
        (b"\x80\x02h\x05.", "damaged"),
    ],
)
def test_pickles_that_are_no_state_dict_are_refused(tmp_path, pickle, reason):
    with pytest.raises(DataError, match=reason):
        read_checkpoint(write_zip(tmp_path / "weights.pth", pickle))


def tensor_pickle(kind=b"FloatStorage", offset=0, shape=2, stride=1, length=2):
    storage = (
        b"(X\x07\x00\x00\x00storagectorch\n" + kind + b"\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpu"
    )
    storage += b"J" + length.to_bytes(4, "little", signed=True) + b"tQ"
    numbers = [b"J" + value.to_bytes(4, "little", signed=True) for value in (offset, shape, stride)]
    tensor = storage + numbers[0] + numbers[1] + b"\x85" + numbers[2] + b"\x85\x89}t"
    return b"\x80\x02}X\x01\x00\x00\x00actorch._utils\n_rebuild_tensor_v2\n(" + tensor + b"Rs."


def test_the_hand_written_tensor_is_readable(tmp_path):
    path = write_zip(tmp_path / "weights.pth", tensor_pickle(), [("0", b"\0\0\x80?" * 2)])
    assert read_checkpoint(path)["a"].tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"shape": 3}, "outside its stored values"),
        ({"offset": 1}, "outside its stored values"),
        ({"offset": -1}, "outside its stored values"),
        ({"stride": 2}, "outside its stored values"),
        ({"stride": -1}, "outside its stored values"),
        ({"shape": 2**31 - 1, "stride": 0}, "outside its stored values"),
        ({"length": 3}, "8 bytes are left of 3"),
        ({"length": 2**31 - 1}, "8 bytes are left"),
        ({"kind": b"DoubleStorage"}, "names 'torch DoubleStorage'"),
    ],
)
def test_tensors_that_lie_about_their_storage_are_refused(tmp_path, changes, reason):
    pickle = tensor_pickle(**changes)
    path = write_zip(tmp_path / "weights.pth", pickle, [("0", b"\0\0\x80?" * 2)])
    with pytest.raises(DataError, match=reason):
        read_checkpoint(path)


def test_compressed_archives_are_refused(tmp_path):
    path = write_zip(tmp_path / "weights.pth", b"\x80\x02}.", (), zipfile.ZIP_DEFLATED)
    with pytest.raises(DataError, match="compressed"):
        read_checkpoint(path)


def test_big_endian_files_are_refused(tmp_path):
    path = write_zip(tmp_path / "weights.pth", b"\x80\x02}.")
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("archive/byteorder", "big")
    with pytest.raises(DataError, match="big-endian"):
        read_checkpoint(path)
    path.write_bytes(LEGACY_HEADER.replace(b"\x88s.", b"\x89s."))
    with pytest.raises(DataError, match="big-endian"):
        read_checkpoint(path)


def test_an_archive_without_a_pickle_is_refused(tmp_path):
    path = tmp_path / "weights.pth"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme", "nothing")
    with pytest.raises(DataError, match=r"exactly one data\.pkl"):
        read_checkpoint(path)


DEEP = b")" + b"\x85" * 1_000_000


@pytest.mark.parametrize(
    ("pickle", "reason"),
    [
        (b"\x80\x02}" + DEEP + b"K\x01s.", "damaged"),
        (b"\x80\x02ccollections\nOrderedDict\n]" + DEEP + b"K\x01\x86a\x85R.", "OrderedDict"),
    ],
)
def test_deeply_nested_keys_do_not_exhaust_the_stack(tmp_path, pickle, reason):
    with pytest.raises(DataError, match=reason):
        read_checkpoint(write_zip(tmp_path / "weights.pth", pickle))


def test_deeply_nested_storage_keys_do_not_exhaust_the_stack(tmp_path):
    path = tmp_path / "weights.pth"
    path.write_bytes(LEGACY_HEADER + b"\x80\x02}.\x80\x02]" + DEEP + b"a.")
    with pytest.raises(DataError, match="does not list the values stored"):
        read_checkpoint(path)


def bent(change):
    state = Small(5).state_dict()
    change(state)
    return state


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda state: state.pop("conv1.weight"), "'conv1.weight' is missing"),
        (lambda state: state.pop("fc.bias"), "'fc.bias' is missing"),
        (lambda state: [state.pop("fc.weight"), state.pop("fc.bias")], "'fc.weight' is missing"),
        (lambda state: state.update(extra=torch.zeros(1)), "'extra' is not part of the model"),
        (
            lambda state: state.update({"conv1.weight": torch.zeros(4, 3, 5, 5)}),
            r"'conv1.weight' has shape \(4, 3, 5, 5\), expected \(4, 3, 3, 3\)",
        ),
        (
            lambda state: state.update({"bn1.bias": torch.zeros(4, dtype=torch.int64)}),
            "'bn1.bias' is torch.int64, expected torch.float32",
        ),
        (
            lambda state: state.update({"bn1.bias": torch.full((4,), float("nan"))}),
            "'bn1.bias' holds values that are not finite",
        ),
    ],
)
def test_weights_that_do_not_fit_leave_the_module_untouched(tmp_path, change, reason):
    module = Small(5, seed=1)
    before = {name: values.clone() for name, values in module.state_dict().items()}
    with pytest.raises(DataError, match=reason):
        load(save(bent(change), tmp_path / "weights.pth"), module)
    assert_equal_states(module.state_dict(), before)


def test_only_the_first_few_problems_are_listed(tmp_path):
    path = save(Small(5).state_dict(), tmp_path / "weights.pth")
    with pytest.raises(DataError, match=r"and \d+ more") as caught:
        load(path, ResNet18(10))
    assert str(caught.value).count("is missing") == 5


def test_a_folder_in_the_place_of_the_weights(tmp_path):
    with pytest.raises(DataError, match=r"damaged \(Is a directory\)"):
        read_checkpoint(tmp_path)

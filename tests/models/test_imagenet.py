"""Pretrained weights are read without running anything the file says."""

import hashlib
import pickle
import subprocess
import sys
import zipfile
from collections import OrderedDict

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from coterie.errors import DataError
from coterie.models.imagenet import RESNET18_SHA256, RESNET18_URL, load_imagenet_weights
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
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    load_imagenet_weights(path, module, sha256=digest)


def assert_equal_states(found, expected, names=None):
    for name in names or expected:
        assert torch.equal(found[name], expected[name]), name


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


def test_safetensors_files_are_read_without_a_digest(tmp_path):
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


def test_a_wrong_digest_is_refused_before_anything_is_read(tmp_path):
    path = save(Small(5).state_dict(), tmp_path / "weights.pth")
    with pytest.raises(DataError) as caught:
        load_imagenet_weights(path, Small(5))
    message = str(caught.value)
    assert f"expected {RESNET18_SHA256}" in message
    assert RESNET18_URL in message


def test_a_missing_file_names_the_download(tmp_path):
    with pytest.raises(DataError, match=r"no weights file at .*f37072fd\.pth"):
        load_imagenet_weights(tmp_path / "absent.pth", Small(5))


def test_a_file_that_would_run_code_is_not_executed(tmp_path):
    """Even if its digest were that of the official file."""
    marker = tmp_path / "executed"
    code = f"open({str(marker)!r}, 'w').close()".encode()
    payload = b"\x80\x02cbuiltins\nexec\nX" + len(code).to_bytes(4, "little") + code + b"\x85R."
    path = tmp_path / "weights.pth"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", payload)
        archive.writestr("archive/version", "3")
    with pytest.raises(pickle.UnpicklingError, match="Unsupported global: GLOBAL exec"):
        load(path, Small(5))
    assert not marker.exists()

    # The same bytes do run where they are unpickled.
    program = "import pickle, sys; pickle.load(sys.stdin.buffer)"
    subprocess.run([sys.executable, "-c", program], input=payload, check=True)
    assert marker.exists()


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
    with pytest.raises(DataError, match="no weights file"):
        load_imagenet_weights(tmp_path, Small(5))

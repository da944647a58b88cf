"""Ordinary slips on the command line, each answered by one sentence that says what to type."""

from __future__ import annotations

import shlex

import pytest
from commands import coterie, end, plain, refused, start

SLIPS = {
    "digits": "Did you mean coterie run digits?",
    "kin": "Did you mean coterie run digits --strategy kin?",
    "runn digits": "There is no command 'runn'. Did you mean 'run'?",
    "train digits": "Did you mean coterie run PRESET?",
    "analyze runs/mine": "Did you mean 'analyse'?",
    "plot runs/mine": "coterie figures FOLDER, or coterie report FOLDER?",
    "help": "Did you mean coterie --help?",
    "version": "Did you mean coterie --version?",
    "mine.yaml": "Did you mean coterie run mine.yaml?",
    "--rounds 3 run digits": "Options come after the command",
    "peer start": "There is no command 'start'. Did you mean 'status'?",
    "run digits --lr 0.1": "No such option: --lr. Did you mean --set training.learning_rate=…?",
    "run digits --learning-rate 1": "Did you mean --set training.learning_rate=…?",
    "run digits --epochs 3": "Did you mean --set training.epochs=…?",
    "run digits --batch-size 4": "Did you mean --set training.batch_size=…?",
    "run digits --optimizer sgd": "Did you mean --set training.optimizer=…?",
    "sweep digits --model resnet-18": "Did you mean --set model.name=…",
    "run digits --model cifar": "Give FILE.py:FUNCTION, or a name.",
    "run digits --dataset mnist": "Did you mean --set data.datasets=[…]?",
    "run digits --fetches 3": "Did you mean --set strategy.fetches=…?",
    "run digits --clients 3": "Did you mean --peers N?",
    "run digits --round 3": "Did you mean --rounds?",
    "run digits --output x": "Did you mean --out FOLDER?",
    "run digits -o x": "Did you mean --out FOLDER?",
    "run digits --gpu": "Did you mean --device cuda?",
    "run digits --workers 4": "Did you mean --threads N?",
    "run digits --strategies local": "Did you mean --strategy A,B?",
    "run digits --verbose": "See coterie run --help.",
    "run --preset digits": "Give the preset without an option: coterie run digits.",
    "run --config mine.yaml": "Give the file instead of a preset: coterie run FILE.yaml.",
    "sweep digits --lr 0.1,0.2": "or --vary training.learning_rate=…,…?",
    "run digits local": "Separate strategies with commas: --strategy local.",
    "run digits --strategy kin random": "strategies with commas: --strategy kin,random.",
    "run digits rounds=3": "Did you mean --set rounds=3?",
    "list presets": "Type coterie list without arguments.",
    "data download cifar10": "downloaded when they are used",
    "swarm digits": "Did you mean coterie swarm --preset digits?",
    "run digits --rounds": "Option '--rounds' requires an argument",
    "run digits --rounds ten": "--rounds ten cannot be used: expected a whole number.",
    "run digits --seeds=0": "--seeds 0 cannot be used: expected a value greater than",
    "run digits --device tpu": "--device tpu cannot be used: expected one of 'auto', 'cpu'",
    "resume": "Missing argument 'FOLDER': The output folder of `coterie run`.",
    "sweep digits": "such as --vary training.learning_rate=0.001,0.0003.",
    "run mnist": "It is a dataset. These presets use it: friends-mnist-fashion",
    "run pacs-photo --rounds 1": "It is a dataset",
    "run kin": "It is a strategy. Type: coterie run digits --strategy kin.",
    "run Digits": "Did you mean 'digits'?",
    "run digits --strategy Kin": "Did you mean 'kin'?",
    "run digits --set lr=1": "Did you mean training.learning_rate?",
    "run digits --set epochs=3": "Did you mean training.epochs?",
    "run digits --set training.lr=1": "Did you mean training.learning_rate?",
    "run digits --set fetches=3": "Did you mean strategy.fetches?",
    "run digits --set model=cnn": "Set one, such as model.name=….",
    "run digits --set peers=8": "Set one, such as peers.count=….",
    "run digits --set data.datasets=mnist": "expected a list, such as [mnist].",
    "run digits --set rounds": "expected dotted.key=value",
}


@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_is_answered_by_what_to_type(tmp_path, monkeypatch, slip):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COTERIE_OFFLINE", "1")
    message = refused(coterie(*shlex.split(slip)), 2, SLIPS[slip])
    assert "Possible options" not in message
    assert "Usage:" not in message
    assert not any(tmp_path.iterdir())


def test_an_old_folder_as_a_command(tmp_path):
    refused(coterie(tmp_path), 2, f"coterie report {tmp_path}", f"coterie resume {tmp_path}")


@pytest.mark.parametrize("words", [("-h",), ("run", "-h"), ("peer", "-h")])
def test_help_in_short(words):
    done = coterie(*words)
    assert done.code == 0
    assert "Usage:" in done.out


def test_a_group_without_a_command_shows_its_commands():
    done = coterie("peer")
    assert done.code == 2
    assert "untrust" in done.out + done.err


def test_as_a_module():
    done = end(start("runn", "digits"))
    assert done.code == 2
    assert "Did you mean 'run'?" in plain(done.err)

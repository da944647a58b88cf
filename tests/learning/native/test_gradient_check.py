"""A wrong translation of a module is found before it is used."""

from __future__ import annotations

from dataclasses import replace

import pytest
from native_bench import FOUND, chain
from torch import nn

from coterie.errors import Interrupted
from coterie.learning.native.gradient_check import check_gradients
from coterie.learning.native.translate_module import translate_module
from coterie.learning.trainer import Unsupported
from coterie.models.layout import Layout
from coterie.tasks import Task

IMAGE = (1, 6, 6)


WRONG = {
    "no ReLU": lambda step: replace(step, relu=False),
    "no bias": lambda step: replace(step, bias=-1),
    "no pooling": lambda step: replace(step, pool=1, stride=(2, 2)),
    "padding on the other side": lambda step: replace(step, padding=(1, 0), kernel=(3, 1)),
    "weights beside": lambda step: replace(step, weight=step.weight + 1),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_program_is_found_out_before_it_is_used(name):
    """The gradient check at binding; with the right program it raises nothing."""
    module = chain(
        nn.Conv2d(1, 3, (1, 3), padding=(0, 1)), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()
    )
    module.append(chain(nn.Linear(27, 4))[0])
    steps = translate_module(module, Layout.of(module), IMAGE)
    check_gradients(FOUND, steps, module, IMAGE, Task())
    wrong = [WRONG[name](steps[0]), *steps[1:]]
    with pytest.raises(Unsupported, match=r"gradient of '0\.(weight|bias)' differs"):
        check_gradients(FOUND, wrong, module, IMAGE, Task())


def test_a_layer_whose_instance_computes_something_else_is_found_out():
    module = nn.Sequential(nn.Flatten(), nn.Linear(36, 4), nn.Linear(4, 2))
    plain = module[1].forward
    module[1].forward = lambda inputs: 2 * plain(inputs)
    with pytest.raises(Unsupported, match="differs"):
        check_gradients(
            FOUND, translate_module(module, Layout.of(module), IMAGE), module, IMAGE, Task()
        )


def test_ctrl_c_while_a_structure_is_read_is_not_lost():
    class Interrupting(nn.Linear):
        def forward(self, inputs):
            raise Interrupted("Stopped by Ctrl-C.")

    module = Interrupting(2, 2)
    with pytest.raises(Interrupted):
        translate_module(module, Layout.of(module), (2,))

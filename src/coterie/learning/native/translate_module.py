"""Translates a module, a chain of layers, into steps of the compiled library."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 — the usual name
from torch import fx, nn

from coterie.learning.native import library
from coterie.learning.trainer import Unsupported
from coterie.models.layout import Layout

Pair = tuple[int, int]


@dataclass(frozen=True)
class Step:
    """One operation of the compiled library; see source/network.h for the fields."""

    kind: int
    outputs: int = 0
    kernel: Pair = (1, 1)
    stride: Pair = (1, 1)
    padding: Pair = (0, 0)
    relu: bool = False
    pool: int = 1
    count_padding: bool = False
    layer: int = 0
    whole_channels: bool = False
    rate: float = 0.0
    weight: int = 0
    bias: int = -1

    def operation(self) -> library.Operation:
        """Return the library's structure."""
        return library.Operation(
            kind=self.kind,
            outputs=self.outputs,
            kernel=self.kernel,
            stride=self.stride,
            padding=self.padding,
            relu=self.relu,
            pool=self.pool,
            count_padding=self.count_padding,
            layer=self.layer,
            whole_channels=self.whole_channels,
            rate=self.rate,
            weight=self.weight,
            bias=self.bias,
        )


FLATTEN = Step(kind=0)
"""nn.Flatten while a module is read; the library has no such operation."""


def translate_module(module: nn.Module, layout: Layout, input_shape: tuple[int, ...]) -> list[Step]:
    """Return the steps of a module, fused where possible; raise Unsupported with a reason.

    Afterwards the module is in evaluation mode.
    """
    if len(input_shape) not in (1, 3):
        raise Unsupported(f"samples of shape {input_shape} are neither flat nor images")
    if not all(parameter.requires_grad for parameter in module.parameters()):
        raise Unsupported("some of its parameters are frozen")
    if any(not entry.trainable for entry in layout.entries):
        raise Unsupported("it has buffers")
    _refuse_hooks(module)
    steps, evaluated = (_read(module, layout, training=training) for training in (True, False))
    if steps != evaluated:
        raise Unsupported("it has different layers in training and in evaluation")
    layers = [step.layer for step in steps if step.kind in (library.CONVOLUTION, library.LINEAR)]
    if not layers:
        raise Unsupported("it has no convolution or linear layer")
    # Sometimes only the last layers are trained: they must be the last ones of the chain.
    if layers != sorted(layers):
        raise Unsupported("the order of its layers in use differs from their definition")
    return _fused(steps, is_flat=len(input_shape) == 1)


_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_TENSOR_HOOKS = ("_backward_hooks", "_post_accumulate_grad_hooks")


def _refuse_hooks(module: nn.Module) -> None:
    """Raise Unsupported if the module has hooks, which compiled code would not call."""
    for name, part in module.named_modules():
        if any(getattr(part, hooks) for hooks in _HOOKS):
            raise Unsupported(f"'{name or type(part).__name__}' has hooks")
    for name, parameter in module.named_parameters():
        if any(getattr(parameter, hooks) for hooks in _TENSOR_HOOKS):
            raise Unsupported(f"'{name}' has hooks")


def _read(module: nn.Module, layout: Layout, *, training: bool) -> list[Step]:
    module.train(training)
    if any(part.training != training for part in module.modules()):
        raise Unsupported("some of its layers ignore train() or eval()")
    return _Reader(module, layout).read()


class _Reader:
    """Follows a module's graph from input to output."""

    def __init__(self, module: nn.Module, layout: Layout) -> None:
        self._module = module
        self._entries = {entry.name: entry for entry in layout.entries}
        self._used: set[str] = set()

    def read(self) -> list[Step]:
        steps: list[Step] = []
        previous: fx.Node | None = None
        for node in _graph(self._module).nodes:
            if node.op == "placeholder" and previous is None:
                previous = node
                continue
            if node.op == "output":
                if node.args != (previous,):
                    raise Unsupported("it does not return the result of its last layer")
                break
            if previous is None or node.all_input_nodes != [previous]:
                raise Unsupported(f"its layers are not a plain chain, at '{node.name}'")
            try:
                steps += self._steps_of(node)
            except (TypeError, ValueError):  # torch has arguments that are unknown here
                raise Unsupported(f"'{node.name}' has unsupported arguments") from None
            previous = node
        if missing := self._entries.keys() - self._used:
            raise Unsupported(f"no supported layer uses its parameter '{min(missing)}'")
        return steps

    def _steps_of(self, node: fx.Node) -> list[Step]:
        if node.op == "call_module":
            name = str(node.target)
            layer = self._module.get_submodule(name) if name else self._module
            return self._layer(name, layer)
        options = dict(node.kwargs)
        arguments = node.args[1:]
        if node.op == "call_function" and node.target in _FUNCTIONS:
            return _FUNCTIONS[node.target](*arguments, **options)
        if node.op == "call_method" and node.target in _METHODS:
            return _METHODS[str(node.target)](*arguments, **options)
        raise Unsupported(f"'{node.name}' is not a supported operation")

    def _layer(self, name: str, layer: nn.Module) -> list[Step]:
        # Exactly these types: a subclass may compute anything.
        for kind, read in _LAYERS.items():
            if type(layer) is kind:
                steps: list[Step] = read(layer)
                break
        else:
            raise Unsupported(f"'{name}' is a {type(layer).__name__}, which is not supported")
        return [self._placed(name, step) for step in steps]

    def _placed(self, name: str, step: Step) -> Step:
        """Return a step with the positions of its parameters in the model's vector."""
        if step.kind not in (library.CONVOLUTION, library.LINEAR):
            return step
        weight, bias = (f"{name}.{key}" if name else key for key in ("weight", "bias"))
        if weight not in self._entries or weight in self._used:
            raise Unsupported(f"'{name}' is used twice or shares its weights")
        self._used |= {weight, bias} & self._entries.keys()
        entry = self._entries[weight]
        return replace(
            step,
            layer=entry.layer,
            weight=entry.start,
            bias=self._entries[bias].start if bias in self._entries else -1,
        )


def _graph(module: nn.Module) -> fx.Graph:
    try:
        return fx.Tracer().trace(module)
    except Exception as error:  # a user's forward may raise anything for a proxy
        raise Unsupported(f"its structure cannot be read ({type(error).__name__})") from None


def _pair(value: Any) -> Pair:
    one, other = (value, value) if isinstance(value, int) else tuple(value)
    return int(one), int(other)


def _convolution(layer: nn.Conv2d) -> list[Step]:
    if layer.groups != 1 or _pair(layer.dilation) != (1, 1) or layer.padding_mode != "zeros":
        raise Unsupported("a convolution has groups, dilation or a padding mode")
    if isinstance(layer.padding, str):
        raise Unsupported(f"a convolution has padding '{layer.padding}'")
    return [
        Step(
            library.CONVOLUTION,
            layer.out_channels,
            _pair(layer.kernel_size),
            _pair(layer.stride),
            _pair(layer.padding),
        )
    ]


def _linear(layer: nn.Linear) -> list[Step]:
    return [Step(library.LINEAR, layer.out_features)]


def _max_pool(
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> list[Step]:
    if ceil_mode or return_indices or _pair(dilation) != (1, 1):
        raise Unsupported("max-pooling has dilation, ceil mode or returns indices")
    return [_pool(library.MAX_POOL, kernel_size, stride, padding)]


def _average_pool(
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> list[Step]:
    if ceil_mode or divisor_override is not None:
        raise Unsupported("average pooling has ceil mode or a divisor override")
    pool = _pool(library.AVERAGE_POOL, kernel_size, stride, padding)
    return [replace(pool, count_padding=count_include_pad)]


def _pool(kind: int, kernel_size: Any, stride: Any, padding: Any) -> Step:
    kernel = _pair(kernel_size)
    return Step(
        kind,
        kernel=kernel,
        stride=kernel if stride is None or stride == [] else _pair(stride),
        padding=_pair(padding),
    )


def _relu(inplace: bool = False) -> list[Step]:
    return [Step(library.RELU)]


def _flatten(start_dim: int = 0, end_dim: int = -1) -> list[Step]:
    if (start_dim, end_dim) != (1, -1):
        raise Unsupported("it does not flatten each sample completely")
    return [FLATTEN]


def _dropout(layer: nn.Dropout | nn.Dropout2d) -> list[Step]:
    whole_channels = isinstance(layer, nn.Dropout2d)
    return [Step(library.DROPOUT, rate=layer.p, whole_channels=whole_channels)]


def _log_softmax(layer: nn.LogSoftmax) -> list[Step]:
    """Return a step to drop: cross-entropy applies log-softmax, and a second one has no effect."""
    if layer.dim not in (1, -1):
        raise Unsupported("its log-softmax is not over the classes")
    return [LOG_SOFTMAX]


LOG_SOFTMAX = Step(kind=-1)

_LAYERS: dict[type[nn.Module], Callable[[Any], list[Step]]] = {
    nn.Conv2d: _convolution,
    nn.Linear: _linear,
    nn.MaxPool2d: lambda pool: _max_pool(
        pool.kernel_size,
        pool.stride,
        pool.padding,
        pool.dilation,
        pool.ceil_mode,
        pool.return_indices,
    ),
    nn.AvgPool2d: lambda pool: _average_pool(
        pool.kernel_size,
        pool.stride,
        pool.padding,
        pool.ceil_mode,
        pool.count_include_pad,
        pool.divisor_override,
    ),
    nn.ReLU: lambda _: _relu(),
    nn.Flatten: lambda layer: _flatten(layer.start_dim, layer.end_dim),
    nn.Dropout: _dropout,
    nn.Dropout2d: _dropout,
    nn.Identity: lambda _: [],
    nn.LogSoftmax: _log_softmax,
}
_FUNCTIONS: dict[Any, Callable[..., list[Step]]] = {
    F.relu: _relu,
    torch.relu: _relu,
    torch.flatten: _flatten,
    F.max_pool2d: _max_pool,
    torch.max_pool2d: _max_pool,
    F.avg_pool2d: _average_pool,
}
_METHODS: dict[str, Callable[..., list[Step]]] = {"relu": _relu, "flatten": _flatten}


def _fused(steps: list[Step], *, is_flat: bool) -> list[Step]:
    """Join ReLU and 2×2 max-pooling to the layer before; drop flattening and log-softmax."""
    fused: list[Step] = []
    for number, step in enumerate(steps):
        if step is LOG_SOFTMAX:
            if number != len(steps) - 1:
                raise Unsupported("its log-softmax is not its last layer")
            if [before.outputs for before in fused if before.outputs][-1] == 1:
                raise Unsupported("the log-softmax of a single output is always zero")
            continue
        if step is FLATTEN:
            is_flat = True
            continue
        if step.kind == library.LINEAR and not is_flat:
            raise Unsupported("it has a linear layer on images without flattening")
        if is_flat and step.kind in (library.CONVOLUTION, library.MAX_POOL, library.AVERAGE_POOL):
            raise Unsupported("it has a convolution or pooling after flattening")
        before = fused[-1] if fused else None
        if before is not None and _can_join(before, step):
            change = {"relu": True} if step.kind == library.RELU else {"pool": 2}
            fused[-1] = replace(before, **change)
        else:
            fused.append(step)
    return fused


def _can_join(before: Step, step: Step) -> bool:
    """Return whether a step can be fused; ReLU and max-pooling may be in any order."""
    if step.kind == library.RELU:
        return before.kind in (library.CONVOLUTION, library.LINEAR)
    return (
        before.kind == library.CONVOLUTION
        and before.pool == 1
        and step.kind == library.MAX_POOL
        and (step.kernel, step.stride, step.padding) == ((2, 2), (2, 2), (0, 0))
    )

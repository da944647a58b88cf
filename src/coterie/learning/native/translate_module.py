"""Translates a module, layers and additions, into steps of the compiled library."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import torch
import torch.nn.functional as F  # noqa: N812 — the usual name
from torch import fx, nn

from coterie.learning.module_calls import single_threaded
from coterie.learning.native import library
from coterie.learning.native.fuse_steps import INPUT, Draft, fuse
from coterie.learning.native.read_layers import (
    FLATTEN,
    FUNCTIONS,
    LAYERS,
    METHODS,
    Shape,
    adaptive_average_pool,
)
from coterie.learning.native.step import PARAMETRIC, Step
from coterie.learning.trainer import Unsupported
from coterie.models.layout import Layout

ADDITIONS = (operator.add, operator.iadd, torch.add, "add", "add_")
MEANS = (torch.mean, "mean")
RESHAPES = ("view", "reshape", torch.reshape)
ADAPTIVE = (F.adaptive_avg_pool2d,)
IN_PLACE = (operator.iadd, torch.relu_, "add_", "relu_")
IMAGE_LAYERS = (library.CONVOLUTION, library.MAX_POOL, library.AVERAGE_POOL)

Form = Literal["flat", "image", "flattened image", "sequence"]


@dataclass(frozen=True)
class Value:
    """A result within a module: the step that computes it, and how its values are arranged."""

    step: int
    form: Form


def translate_module(module: nn.Module, layout: Layout, input_shape: Shape) -> list[Step]:
    """Return the steps of a module, fused where possible; raise Unsupported with a reason.

    Afterwards the module is in evaluation mode.
    """
    if len(input_shape) not in (1, 3):
        raise Unsupported(f"samples of shape {input_shape} are neither flat nor images")
    if not all(parameter.requires_grad for parameter in module.parameters()):
        raise Unsupported("some of its parameters are frozen")
    _refuse_hooks(module)
    steps, evaluated = (
        _read(module, layout, input_shape, training=training) for training in (True, False)
    )
    if steps != evaluated:
        raise Unsupported("it has different layers in training and in evaluation")
    if not any(step.kind in (library.CONVOLUTION, library.LINEAR) for step in steps):
        raise Unsupported("it has no convolution or linear layer")
    return steps


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


def _read(module: nn.Module, layout: Layout, shape: Shape, *, training: bool) -> list[Step]:
    module.train(training)
    if any(part.training != training for part in module.modules()):
        raise Unsupported("some of its layers ignore train() or eval()")
    return _Reader(module, layout, shape).read()


class _Reader:
    """Follows a module's graph from input to output."""

    def __init__(self, module: nn.Module, layout: Layout, shape: Shape) -> None:
        self._module = module
        self._shape = shape
        self._entries = {entry.name: entry for entry in layout.entries}
        self._used: set[str] = set()
        self._values: dict[fx.Node, Value] = {}
        self._drafts: list[Draft] = []
        self._overwritten: list[tuple[int, str]] = []

    def read(self) -> list[Step]:
        graph = self._graph
        for node in graph.nodes:
            if node.op == "placeholder":
                if self._values:
                    raise Unsupported("it has more than one input")
                self._values[node] = Value(INPUT, "image" if len(self._shape) == 3 else "flat")
            elif node.op == "output":
                break
            elif not _is_size(node):
                self._read_node(node)
        result = node.args[0] if node.op == "output" else None
        if not isinstance(result, fx.Node) or result not in self._values:
            raise Unsupported("it does not return the result of its last layer")
        self._refuse_overwritten()
        self._refuse_missing()
        return fuse(self._drafts, self._values[result].step)

    def _read_node(self, node: fx.Node) -> None:
        if not node.users:
            raise Unsupported(f"its result at '{node.name}' is not used")
        inputs = [self._value(each) for each in node.all_input_nodes if not _is_size(each)]
        try:
            if node.target in ADDITIONS:
                self._values[node] = self._addition(node)
            elif len(inputs) != 1:
                raise Unsupported(f"'{node.name}' is not an operation on one result or a sum")
            else:
                self._values[node] = self._operation(node, inputs[0])
        except (TypeError, ValueError):  # torch has arguments that are unknown here
            raise Unsupported(f"'{node.name}' has unsupported arguments") from None
        if _is_in_place(self._module, node):
            self._overwritten.append((inputs[0].step, node.name))

    def _value(self, node: fx.Node) -> Value:
        if node not in self._values:
            raise Unsupported(f"'{node.name}' is not a supported operation")
        return self._values[node]

    def _addition(self, node: fx.Node) -> Value:
        one, other = node.args
        if node.kwargs or not isinstance(one, fx.Node) or not isinstance(other, fx.Node):
            raise Unsupported(f"'{node.name}' adds something else than two results")
        first, second = self._value(one), self._value(other)
        if first.form != second.form or first.form == "sequence":
            raise Unsupported(f"'{node.name}' adds results of different shapes")
        return self._add(Step(library.ADD), first.form, first.step, second.step)

    def _operation(self, node: fx.Node, value: Value) -> Value:
        if node.op == "call_module":
            name = str(node.target)
            layer = self._module.get_submodule(name) if name else self._module
            return self._layer(node, name, layer)
        options: dict[str, Any] = dict(node.kwargs)
        arguments: list[Any] = list(node.args[1:])
        source = node.args[0] if node.args else options.pop("input", None)
        if not isinstance(source, fx.Node):
            raise Unsupported(f"'{node.name}' has unsupported arguments")
        if node.target in MEANS:
            return self._mean(node, value, *arguments, **options)
        if node.target in RESHAPES:
            return self._reshaped(node, value)
        if node.target in ADAPTIVE:
            pooled = adaptive_average_pool(self._shape_of(source), *arguments, **options)
            return self._place(node, pooled, value)
        known: dict[Any, Callable[..., Step | None]] = (
            FUNCTIONS if node.op == "call_function" else METHODS
        )
        if node.op not in ("call_function", "call_method") or node.target not in known:
            raise Unsupported(f"'{node.name}' is not a supported operation")
        return self._place(node, known[node.target](*arguments, **options), value)

    def _layer(self, node: fx.Node, name: str, layer: nn.Module) -> Value:
        source = node.args[0] if node.args else next(iter(node.kwargs.values()))
        if not isinstance(source, fx.Node) or len(node.args) + len(node.kwargs) != 1:
            raise Unsupported(f"'{node.name}' has unsupported arguments")
        value = self._value(source)
        # Exactly these types: a subclass may compute anything.
        if type(layer) is nn.AdaptiveAvgPool2d:
            pooled = adaptive_average_pool(self._shape_of(source), layer.output_size)
            return self._place(node, pooled, value)
        if type(layer) not in LAYERS:
            raise Unsupported(f"'{name}' is a {type(layer).__name__}, which is not supported")
        if type(layer) is nn.LayerNorm and layer.normalized_shape != self._shape_of(source):
            raise Unsupported(f"'{name}' normalises only a part of each sample")
        step = LAYERS[type(layer)](layer)
        if step is not None and step.kind in PARAMETRIC:
            step = self._with_parameters(name, layer, step)
        placed = self._place(node, step, value)
        return self._joined(placed, is_flat=False) if type(layer) is nn.EmbeddingBag else placed

    def _place(self, node: fx.Node, step: Step | None, value: Value) -> Value:
        """Add a step that reads one value, if it fits the arrangement of the value."""
        if step is None:
            return value
        if value.form == "sequence" and step is not FLATTEN:
            raise Unsupported(f"'{node.name}' reads the rows of an embedding one by one")
        if step is FLATTEN:
            return self._flattened(value)
        if step.kind == library.EMBEDDING:
            if value != Value(INPUT, "flat"):
                raise Unsupported("an embedding reads something else than the input")
            return self._add(step, "sequence", INPUT)
        if step.kind == library.LINEAR and value.form == "image":
            raise Unsupported("it has a linear layer on images without flattening")
        if step.kind in IMAGE_LAYERS and value.form != "image":
            raise Unsupported("it has a convolution or pooling after flattening")
        if step.kind == library.BATCH_NORM and step.is_flat == (value.form == "image"):
            raise Unsupported("its batch normalisation is not for this shape of samples")
        if step.kind == library.GROUP_NORM and value.form == "flattened image":
            raise Unsupported("it has a group normalisation of flattened images")
        form: Form = "flat" if step.kind == library.LINEAR else value.form
        return self._add(step, form, value.step)

    def _add(self, step: Step, form: Form, *sources: int) -> Value:
        self._drafts.append(Draft(step, sources))
        return Value(len(self._drafts) - 1, form)

    def _flattened(self, value: Value) -> Value:
        if value.form == "sequence":
            return self._joined(value, is_flat=True)
        return replace(value, form="flattened image") if value.form == "image" else value

    def _joined(self, value: Value, *, is_flat: bool) -> Value:
        """Let an embedding average all positions, or keep them all."""
        draft = self._drafts[value.step]
        if draft.is_joined and draft.step.is_flat != is_flat:
            raise Unsupported("the rows of an embedding are both averaged and flattened")
        self._drafts[value.step] = replace(
            draft, step=replace(draft.step, is_flat=is_flat), is_joined=True
        )
        return replace(value, form="flat")

    def _mean(self, node: fx.Node, value: Value, dim: Any = None, keepdim: bool = False) -> Value:
        over = {dim} if isinstance(dim, int) else set(dim or ())
        if value.form == "sequence" and over in ({1}, {-2}) and not keepdim:
            return self._joined(value, is_flat=False)
        if value.form != "image" or {each % 4 for each in over} != {2, 3}:
            raise Unsupported(f"'{node.name}' is not the mean over an image or over positions")
        source = node.all_input_nodes[0]
        pooled = self._place(node, adaptive_average_pool(self._shape_of(source), 1), value)
        return pooled if keepdim else replace(pooled, form="flattened image")

    def _reshaped(self, node: fx.Node, value: Value) -> Value:
        shape = self._shape_of(node)
        if len(shape) != 1 or shape[0] != _size(self._shape_of(node.all_input_nodes[0])):
            raise Unsupported("it does not flatten each sample completely")
        return self._flattened(value)

    def _with_parameters(self, name: str, layer: nn.Module, step: Step) -> Step:
        """Return a step with the positions of its parameters in the model's vector."""
        keys = ("weight", "bias", "running_mean", "running_var")
        places = {key: f"{name}.{key}" if name else key for key in keys}
        present = [places[key] for key in keys if getattr(layer, key, None) is not None]
        if any(each not in self._entries or each in self._used for each in present):
            raise Unsupported(f"'{name}' is used twice or shares its weights")
        self._used |= set(present)
        for each in present:
            if not self._entries[each].trainable and each in (places["weight"], places["bias"]):
                raise Unsupported(f"'{each}' is not trained")
        starts = [self._entries[each].start if each in present else -1 for each in places.values()]
        layer_number = self._entries[present[0]].layer if present else 0
        weight, bias, mean, variance = starts
        return replace(
            step, layer=layer_number, weight=weight, bias=bias, mean=mean, variance=variance
        )

    def _refuse_overwritten(self) -> None:
        """Raise Unsupported if a value changes in place that something else reads too."""
        sources = [source for draft in self._drafts for source in draft.sources]
        for step, name in self._overwritten:
            if sources.count(step) > 1:
                raise Unsupported(f"'{name}' changes a result in place that is read elsewhere")

    def _refuse_missing(self) -> None:
        if missing := self._entries.keys() - self._used:
            name = min(missing)
            if not self._entries[name].trainable:
                raise Unsupported(
                    f"no supported layer uses '{name}', a buffer or a parameter that is not trained"
                )
            raise Unsupported(f"no supported layer uses its parameter '{name}'")

    @cached_property
    def _graph(self) -> fx.Graph:
        try:
            return fx.Tracer().trace(self._module)
        except Exception as error:  # a user's forward may raise anything for a proxy
            raise Unsupported(f"its structure cannot be read ({type(error).__name__})") from None

    def _shape_of(self, node: fx.Node) -> Shape:
        """Return the shape of one sample's values at a node."""
        return self._shapes[node.name]

    @cached_property
    def _shapes(self) -> dict[str, Shape]:
        tables = nn.Embedding | nn.EmbeddingBag
        reads_tokens = any(isinstance(part, tables) for part in self._module.modules())
        samples = torch.zeros(2, *self._shape, dtype=torch.int64 if reads_tokens else torch.float32)
        was_training = self._module.training
        self._module.eval()  # running statistics stay
        finder = _ShapeFinder(fx.GraphModule(self._module, self._graph))
        try:
            with single_threaded(), torch.no_grad():
                finder.run(samples)
        except Exception as error:  # a user's forward may raise anything
            raise Unsupported(f"its shapes cannot be found ({type(error).__name__})") from None
        finally:
            self._module.train(was_training)
        return finder.shapes


class _ShapeFinder(fx.Interpreter):
    """Runs a module's graph, and keeps the shape of one sample's values at each node."""

    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(module)
        self.shapes: dict[str, Shape] = {}

    def run_node(self, n: fx.Node) -> Any:
        """Run one node as usual."""
        result = super().run_node(n)
        if isinstance(result, torch.Tensor):
            self.shapes[n.name] = tuple(result.shape[1:])
        return result


def _size(shape: Shape) -> int:
    return torch.Size(shape).numel()


def _is_size(node: fx.Node) -> bool:
    """Whether a node computes a size, such as images.shape[0]."""
    if node.op == "call_function":
        return node.target in (getattr, operator.getitem)
    return node.op == "call_method" and node.target == "size"


def _is_in_place(module: nn.Module, node: fx.Node) -> bool:
    if node.op == "call_module":
        return bool(getattr(module.get_submodule(str(node.target)), "inplace", False))
    return node.target in IN_PLACE or bool(node.kwargs.get("inplace", False))

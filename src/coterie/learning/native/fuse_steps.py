"""Joins steps that the compiled library computes together, and connects the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from coterie.learning.native import library
from coterie.learning.native.read_layers import LOG_SOFTMAX
from coterie.learning.native.step import Step
from coterie.learning.trainer import Unsupported

INPUT = -1
"""The number of the network's input, before the first step."""
WITH_RELU = (
    library.CONVOLUTION,
    library.LINEAR,
    library.BATCH_NORM,
    library.GROUP_NORM,
    library.LAYER_NORM,
    library.ADD,
)


@dataclass(frozen=True)
class Draft:
    """A step and the numbers of those whose results it reads."""

    step: Step
    sources: tuple[int, ...]
    is_joined: bool = False
    """An embedding whose rows are averaged or flattened."""


def fuse(drafts: Sequence[Draft], result: int) -> list[Step]:
    """Return the steps that lead to a result.

    ReLU and 2×2 max-pooling are joined to the layer before, and log-softmax is dropped.
    """
    drafts, result = _without_log_softmax(drafts, result)
    if result != len(drafts) - 1:
        raise Unsupported("it does not return the result of its last layer")
    reads = Counter(source for draft in drafts for source in draft.sources)
    fused: list[Draft] = []
    numbers = {INPUT: INPUT}
    for number, draft in enumerate(drafts):
        sources = tuple(numbers[source] for source in draft.sources)
        before = sources[0]
        numbers[number] = before
        if (
            before != INPUT
            and reads[draft.sources[0]] == 1
            and _can_join(fused[before].step, draft.step)
        ):
            change = {"relu": True} if draft.step.kind == library.RELU else {"pool": 2}
            fused[before] = replace(fused[before], step=replace(fused[before].step, **change))
            continue
        fused.append(Draft(draft.step, sources))
        numbers[number] = len(fused) - 1
    return [_connected(number, draft) for number, draft in enumerate(fused)]


def _connected(number: int, draft: Draft) -> Step:
    """Return a step that says how many steps before it those are that it reads."""
    back = [number - source for source in draft.sources]
    return replace(draft.step, source=back[0], other=back[1] if len(back) > 1 else 0)


def _without_log_softmax(drafts: Sequence[Draft], result: int) -> tuple[Sequence[Draft], int]:
    if all(draft.step is not LOG_SOFTMAX for draft in drafts):
        return drafts, result
    if drafts[result].step is not LOG_SOFTMAX or any(
        draft.step is LOG_SOFTMAX for draft in drafts[:-1]
    ):
        raise Unsupported("its log-softmax is not its last layer")
    if [draft.step.outputs for draft in drafts if draft.step.outputs][-1] == 1:
        raise Unsupported("the log-softmax of a single output is always zero")
    return drafts[:-1], drafts[result].sources[0]


def _can_join(before: Step, step: Step) -> bool:
    """Return whether a step can be fused; ReLU and max-pooling may be in any order."""
    if step.kind == library.RELU:
        return before.kind in WITH_RELU
    return (
        before.kind == library.CONVOLUTION
        and before.pool == 1
        and step.kind == library.MAX_POOL
        and (step.kernel, step.stride, step.padding) == ((2, 2), (2, 2), (0, 0))
    )

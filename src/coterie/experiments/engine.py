"""What runs several runs at a time: processes of this computer, or another engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from coterie.experiments.run_folder import RunFolder
from coterie.learning.trainer_choice import Tell

Execute = Callable[..., None]
"""Runs one run; has the parameters of `execution.execute`."""
Piece_contra = TypeVar("Piece_contra", contravariant=True)
"""What a pool needs to run one run."""
OnMessage = Callable[[str, Any], None]
"""Is called with the name of a run and its `RoundMetrics`, or a message to the user."""
OnRunEnd = Callable[[str, BaseException | None], None]
"""Is called with the name of a run that has ended, and its error."""


class Pool(Protocol[Piece_contra]):
    """Runs several runs at a time."""

    def run(
        self, work: Iterator[tuple[str, Piece_contra]], asked_to_stop: Callable[[], bool]
    ) -> None:
        """Run all work; once asked to stop, start nothing more and let runs save and end."""


class OpenPool(Protocol[Piece_contra]):
    """Returns a pool that reports to these functions."""

    def __call__(self, *, on_message: OnMessage, on_end: OnRunEnd) -> Pool[Piece_contra]:
        """Return a new pool."""


class Engine(Protocol):
    """Runs runs elsewhere, such as on a cluster; the folders of runs are as of local runs."""

    execute: Execute | None
    """Runs one run, as `execution.execute` does, so that runs come one after another. None: they
    are given to a pool."""

    def open_pool(
        self,
        waiting: Sequence[RunFolder],
        folder: Path,
        tell: Tell,
        *,
        on_message: OnMessage,
        on_end: OnRunEnd,
    ) -> Pool[RunFolder]:
        """Return a pool for the waiting runs of the experiment in `folder`."""

"""How much faster is compiled code with vectors of 16 floats than with vectors of eight?

usage: python benchmarks/wide_vectors.py [--repeats N] [MODEL …] [--save]

Training in batches of 8 and evaluation on one thread: CPU time, both in turn, the best of several
repeats. The data are random. The results of both must be the same bits.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import closing
from typing import Any

import numpy as np
from keeping import show

from coterie.benchmarking.machine import describe_machine
from coterie.benchmarking.model_speed import random_pool
from coterie.benchmarking.timing import best_rates
from coterie.data.pools import Samples
from coterie.learning.module_calls import single_threaded
from coterie.learning.native.library import Library, find_library
from coterie.learning.settings import TrainingSettings
from coterie.learning.trainer import EvaluateJob, ModelReference, TrainJob, Workspace
from coterie.learning.trainer_choice import make_native_trainer
from coterie.models.architectures import architecture
from coterie.models.vector import vector_of
from coterie.tasks import Task

MODELS = ("cifar-cnn", "fashion-cnn", "pens-cnn", "digits-cnn", "mlp")
BATCH = 8
SAMPLES = 400
WIDTHS = {"8": 0, "16": 1}


def main() -> None:
    """Measure the chosen models, print the figures, and keep them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=", ".join(MODELS))
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--save", action="store_true")
    options = parser.parse_args()
    library = find_library()
    if isinstance(library, str):
        parser.error(library)
    had = library.widen(1)
    if not library.widen(had):
        parser.error("this processor has no vectors of 16 floats")
    with single_threaded():
        measured = {
            name: measure(library, name, options.repeats) for name in options.models or MODELS
        }
    library.widen(had)
    figures = {"batch_size": BATCH, "samples": SAMPLES, "repeats": options.repeats}
    show(describe_machine() | figures | measured, "wide-vectors", save=options.save)


def measure(library: Library, name: str, repeats: int) -> dict[str, Any]:
    """Return the rates with both kinds of vectors, after an epoch of training."""
    model = architecture(name)
    module, pool = model.build(), random_pool(model, SAMPLES)
    workspace = Workspace([pool], {"models": np.stack([vector_of(module)] * 2)})
    mine, start = ModelReference("models", 0), ModelReference("models", 1)
    samples, results = Samples(0, 0, SAMPLES), {}
    settings = TrainingSettings(batch_size=BATCH)
    with closing(make_native_trainer(module, settings, workspace, Task(), threads=1)) as trainer:
        trainer.train([TrainJob(start, samples, epochs=1, bits=0)])

        def training(width: str) -> Callable[[], int]:
            def work() -> int:
                library.widen(WIDTHS[width])
                workspace.model(mine)[:] = workspace.model(start)
                trainer.train([TrainJob(mine, samples, epochs=1, bits=1)])
                results[width] = workspace.model(mine).tobytes()
                return SAMPLES

            return work

        def evaluation(width: str) -> Callable[[], int]:
            def work() -> int:
                library.widen(WIDTHS[width])
                trainer.evaluate([EvaluateJob(start, samples)])
                return SAMPLES

            return work

        candidates = {("train", width): training(width) for width in WIDTHS}
        candidates |= {("evaluate", width): evaluation(width) for width in WIDTHS}
        rates = best_rates(candidates, repeats, lambda: None)
    if results["8"] != results["16"]:
        raise SystemExit(f"{name}: the results differ")
    return {
        f"{work}_{label}": value
        for work in ("train", "evaluate")
        for label, value in (
            ("samples_per_second_with_8", round(rates[work, "8"])),
            ("samples_per_second_with_16", round(rates[work, "16"])),
            ("times_faster", round(rates[work, "16"] / rates[work, "8"], 2)),
        )
    }


if __name__ == "__main__":
    main()

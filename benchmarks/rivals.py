"""The same work in Coterie, in other frameworks, and in a plain loop of torch: time and memory.

usage: python benchmarks/rivals.py [--data-root DIR] [--folder DIR] [--repeats N] [--save]

Every framework is installed from the package index into an environment of its own below the
folder. Its adapter in benchmarks/rivals/ drives it, and says what is particular to it. The work is
in benchmarks/rivals/work.py. Each repetition runs all frameworks in turn. `--save` keeps the
figures.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import psutil
import torch
from keeping import show
from many_peers import PeakMemory

from coterie.benchmarking.machine import describe_machine
from coterie.data.dataset_catalogue import describe, load_dataset
from coterie.randomness import generator

ADAPTERS = Path(__file__).parent / "rivals"
FOLDER = Path("~/.cache/coterie-rivals").expanduser()
# Newer torch releases pull several GB of CUDA packages into a CPU machine on Python 3.11.
TORCH = "torch==2.13.0"
CORES = 2
BASELINE = 2
"""Peers of the runs whose memory is subtracted."""
ROUNDS = {BASELINE: 20, 20: 20, 100: 5, 1000: 1}
"""Measured rounds by the number of peers; one more comes before."""
LIMIT_SECONDS = 300
"""After which a run is stopped."""
MEMORY_EVERY_SECONDS = 0.1
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "FLWR_TELEMETRY_ENABLED": "0",
}
SYNTHETIC_IMAGES = 60_000
Outcome: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Framework:
    """One framework: how it is installed, if it is not part of this environment."""

    name: str
    requirements: tuple[str, ...] = ()
    most_rounds: int = 20
    """Fewer rounds are measured where one takes long."""

    @property
    def adapter(self) -> Path:
        """The script that runs the work."""
        return ADAPTERS / f"with_{self.name}.py"


FRAMEWORKS = (
    Framework("coterie"),
    Framework("torch"),
    Framework("gossipy", ("gossipy-dfl", "torchvision")),
    Framework("fluke", ("fluke-fl",)),
    Framework("flower", ("flwr[simulation]",)),
    Framework(
        "p2pfl",
        # Its extra for torch is for torch 2.2, and its datasets is for older packages.
        (
            "p2pfl[dp]",
            *("lightning", "torchmetrics", "torchvision"),
            *("pyarrow<21", "huggingface_hub<1"),
        ),
        most_rounds=2,
    ),
    Framework("decentralizepy", ("decentralizepy",)),
    Framework("murmura", ("murmura",)),
)


class NotInstalledError(Exception):
    """A framework that cannot be installed."""


def main() -> None:
    """Install, measure and print; keep the figures if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data-root", type=Path)
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--minutes", type=float, default=60, help="after which no repeat starts")
    parser.add_argument("--peers", type=int, nargs="+", default=list(ROUNDS))
    parser.add_argument("--only", nargs="+", default=[each.name for each in FRAMEWORKS])
    parser.add_argument("--save", action="store_true")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    chosen = [each for each in FRAMEWORKS if each.name in options.only]
    pythons, missing = install(chosen, options.folder)
    with shared_data(options.data_root) as (data, title):
        report = describe_machine() | {
            "data": title,
            "cores_used": CORES,
            "torch_vectors": torch.backends.cpu.get_cpu_capability(),
            "limit_seconds": LIMIT_SECONDS,
            "baseline_peers": BASELINE,
            "not_installed": missing,
            "runs": Session(pythons, data).run(options.peers, options.repeats, options.minutes),
        }
    show(report, "rivals", save=options.save)


def install(
    frameworks: list[Framework], folder: Path
) -> tuple[dict[Framework, Path], dict[str, str]]:
    """Return the Python of each framework, and why others cannot be installed."""
    pythons, missing = {}, {}
    for framework in frameworks:
        try:
            pythons[framework] = python_of(framework, folder)
        except NotInstalledError as error:
            missing[framework.name] = str(error)
            print(f"{framework.name} is left out: {error}", flush=True)
    return pythons, missing


def python_of(framework: Framework, folder: Path) -> Path:
    """Return the Python that can import a framework; install it if that has not been done."""
    if not framework.requirements:
        return Path(sys.executable)
    home = folder / framework.name
    python = home / "bin" / "python"
    done = home / "requirements.json"
    wanted = json.dumps([TORCH, *framework.requirements])
    if not done.exists() or done.read_text() != wanted:
        shutil.rmtree(home, ignore_errors=True)
        print(f"Installing {framework.name} …", flush=True)
        venv.create(home, with_pip=True)
        constraints = folder / "constraints.txt"
        constraints.write_text(f"{TORCH}\n")
        command = (python, "-m", "pip", "install", "-q", "-c", constraints, TORCH)
        pip = subprocess.run(
            [*map(str, command), *framework.requirements],
            check=False,
            capture_output=True,
            text=True,
            env=environment(framework),
        )
        if pip.returncode:
            shutil.rmtree(home)
            errors = [line for line in pip.stderr.splitlines() if line.startswith("ERROR: ")]
            raise NotInstalledError(
                errors[-1].removeprefix("ERROR: ") if errors else pip.stderr[-200:]
            )
        done.write_text(wanted)
    if not framework.adapter.exists():
        raise NotInstalledError("it can be installed, but has no adapter")
    return python


def environment(framework: Framework) -> dict[str, str]:
    """Return the variables of an adapter: one thread per library, and no modules of others."""
    inherited = dict(os.environ)
    if framework.requirements:
        inherited.pop("PYTHONPATH", None)
    return inherited | ENVIRONMENT


@contextlib.contextmanager
def shared_data(root: Path | None) -> Iterator[tuple[Path, str]]:
    """Write the images and labels of all peers as plain bytes; give their folder and title."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        if describe("mnist", root).available:
            dataset = load_dataset("mnist", root)
            images, labels, title = dataset.inputs, dataset.targets, "MNIST"
        else:
            random = generator(0, "benchmark", "rivals")
            images = random.integers(256, size=(SYNTHETIC_IMAGES, 1, 28, 28))
            labels = random.integers(10, size=SYNTHETIC_IMAGES)
            title = "random images of the shape of MNIST"
        (folder / "images.bin").write_bytes(images.astype("uint8").tobytes())
        (folder / "labels.bin").write_bytes(labels.astype("uint8").tobytes())
        yield folder, title


class Session:
    """Runs all frameworks in turn."""

    def __init__(self, pythons: dict[Framework, Path], data: Path) -> None:
        self._pythons = pythons
        self._data = data
        self._too_many: dict[Framework, int] = {}
        """The smallest number of peers with which a framework failed."""

    def run(self, sizes: list[int], repeats: int, minutes: float) -> list[Outcome]:
        """Return all runs. What failed once is not run again, nor with more peers."""
        outcomes: list[Outcome] = []
        started = time.monotonic()
        for repeat in range(repeats):
            if repeat and time.monotonic() - started > 60 * minutes:
                break
            for num_peers in sizes:
                for framework in self._pythons:
                    if num_peers < self._too_many.get(framework, num_peers + 1):
                        outcomes.append(self._run_one(framework, num_peers, repeat))
                        print(json.dumps(outcomes[-1]), flush=True)
        return outcomes

    def _run_one(self, framework: Framework, num_peers: int, repeat: int) -> Outcome:
        rounds = min(ROUNDS[num_peers], framework.most_rounds)
        outcome: Outcome = {
            "framework": framework.name,
            "peers": num_peers,
            "rounds": rounds,
            "repeat": repeat,
        }
        arguments = ("--peers", num_peers, "--rounds", rounds, "--data", self._data)
        command = [str(each) for each in (self._pythons[framework], framework.adapter, *arguments)]
        measured = run_adapter(command, environment(framework))
        if "failed" in measured:
            self._too_many[framework] = num_peers
        return outcome | measured


def run_adapter(command: list[str], variables: dict[str, str]) -> Outcome:
    """Return what an adapter prints, and its peak memory; or why it failed."""
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        with (place / "out").open("w") as out, (place / "errors").open("w") as errors:
            process = subprocess.Popen(
                command, stdout=out, stderr=errors, cwd=temporary, env=variables
            )
            memory = PeakMemory(MEMORY_EVERY_SECONDS, process.pid)
            memory.start()
            started = time.perf_counter()
            try:
                code = process.wait(LIMIT_SECONDS)
            except subprocess.TimeoutExpired:
                return {"failed": f"not finished after {LIMIT_SECONDS} seconds"}
            finally:
                end_tree(process)
                memory.stop()
        if code:
            lines = (place / "errors").read_text().strip().splitlines()
            return {"failed": lines[-1] if lines else f"exit code {code}"}
        measured: Outcome = json.loads((place / "out").read_text().splitlines()[-1])
    return measured | {
        "peak_megabytes": round(memory.peak_bytes / 1e6, 2),
        "whole_seconds": round(time.perf_counter() - started, 1),
    }


def end_tree(process: subprocess.Popen[bytes]) -> None:
    """Kill an adapter that still runs, with all its children."""
    if process.poll() is None:
        root = psutil.Process(process.pid)
        for each in (*root.children(recursive=True), root):
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()
        process.wait()


if __name__ == "__main__":
    main()

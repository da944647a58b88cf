"""Compare two checkouts of Coterie: do the same experiments leave the same results, bit for bit?

usage: python tools/compare_checkouts.py OLD NEW [--only CASE ...] [--keep FOLDER]
       [--renamed OLD=NEW ...]

Runs the same small experiments with both, by their command lines. Compares tables (all columns but
times), models and the numbers of the summaries. Also continues interrupted runs of the old checkout
with the new one, and reads finished ones. The exit code is 1 if anything differs.

Both checkouts run with the Python that runs this script, and each needs its compiled trainer.
`--renamed` names tables, columns and keys of summaries that have another name in the new checkout.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from safetensors.numpy import load_file

Names = Mapping[str, str]

# Timings are the only tables and columns that may differ from run to run.
TIME_TABLES, TIME_COLUMNS = ("timings", "efforts"), ("seconds",)
PEERS_OWN = (
    "local,random,oracle,gossip,dac,greedy,random-weighted,pens,panm,hast,kin,delusional-oracle"
)
ATTACKS = "sign-flip,noise,label-flip,stale,delusional,liar,absent"
SMALL = "--peers 12 --rounds 4 --set peers.train_size=16"
ONE, TWO = "--threads 1 --side-by-side 1", "--threads 2 --side-by-side 1"


@dataclass(frozen=True)
class Case:
    """A command that leaves one folder of runs."""

    name: str
    command: str


CASES = (
    Case(
        "every strategy, native, 1 thread",
        f"run digits --strategy {PEERS_OWN} {SMALL} --trainer native {ONE} --set watch.peers=[0,5]",
    ),
    Case(
        "strategies, native, 2 threads, in turn, with patience",
        f"run digits --strategy dac,kin,gossip,hast {SMALL} --trainer native {TWO} "
        "--set schedule=sequential --set patience=2 --set compare_bests=true "
        "--set best_by=accuracy --set initialisation=independent",
    ),
    Case(
        "strategies, torch, 1 thread",
        f"run digits --strategy random,kin {SMALL} --trainer torch {ONE} --set best=trained",
    ),
    Case(
        "strategies, torch, 2 threads",
        f"run digits --strategy kin,ifca {SMALL} --trainer torch {TWO}",
    ),
    Case(
        "strategies, batched",
        f"run digits --strategy kin,dac {SMALL} --trainer batched --device cpu {ONE}",
    ),
    Case(
        "a server, lost messages, peers offline",
        f"run digits --strategy central,fedavg,ifca,dac {SMALL} {ONE} "
        "--set network.loss_probability=0.2 --set network.offline_probability=0.2",
    ),
    Case(
        "drift",
        f"run digits --strategy local,dac,pens,panm,hast,kin,ifca {SMALL} {ONE} "
        "--set 'drift={kind: random, every: 2}'",
    ),
    Case(
        "poison",
        f"sweep digits --strategy dac,kin --vary poison.kind={ATTACKS} {SMALL} {ONE} "
        "--set poison.count=3",
    ),
    Case(
        "side by side, two at a time",
        f"run digits --strategy dac,kin --seeds 2 {SMALL} --threads 2 --side-by-side 2",
    ),
    Case("a swarm of 8 peers", "swarm --peers 8 --strategy kin --rounds 3"),
)
RESUMED = Case(
    "an interrupted run of the old one, continued by the new one",
    f"run digits --strategy kin,panm --peers 12 --rounds 300 --set checkpoint_every=1 {ONE}",
)
READ = "finished runs of the old one, read by the new one"


class CheckoutError(Exception):
    """A checkout could not do what it was asked."""


@dataclass(frozen=True)
class Checkout:
    """A folder with the source of Coterie, and where its results go."""

    source: Path
    results: Path

    def environment(self) -> dict[str, str]:
        """Return an environment in which `coterie` is that of this checkout."""
        return {**os.environ, "PYTHONPATH": str(self.source / "src"), "COLUMNS": "200"}

    def check(self) -> None:
        """Raise CheckoutError unless Python finds this checkout's package."""
        found = self._python("-c", "import coterie; print(coterie.__file__)").strip()
        if not Path(found).resolve().is_relative_to(self.source.resolve()):
            raise CheckoutError(f"{self.source}: Python finds {found or 'no coterie'} instead.")

    def coterie(self, *arguments: str) -> str:
        """Run a command to its end and return what it printed."""
        return self._python("-m", "coterie", *arguments)

    def run(self, case: Case) -> Path:
        """Run a case to its end and return the folder with its runs."""
        folder = self._folder(case)
        self.coterie(*shlex.split(case.command), "--out", str(folder))
        return folder

    def run_interrupted(self, case: Case) -> Path:
        """Run a case until its first checkpoint, stop it, and return its folder."""
        folder = self._folder(case)
        command = [
            sys.executable,
            "-m",
            "coterie",
            *shlex.split(case.command),
            "--out",
            str(folder),
        ]
        process = subprocess.Popen(
            command,
            env=self.environment(),
            cwd=self.results,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        while process.poll() is None and not list(folder.glob("*/checkpoints/*")):
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        process.wait()
        return folder

    def _folder(self, case: Case) -> Path:
        return self.results / case.name.replace(" ", "-").replace(",", "")

    def _python(self, *arguments: str) -> str:
        self.results.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(
            [sys.executable, *arguments],
            env=self.environment(),
            cwd=self.results,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            last = "\n".join(done.stderr.strip().splitlines()[-15:])
            raise CheckoutError(
                f"{self.source}: {' '.join(arguments)}: code {done.returncode}\n{last}"
            )
        return done.stdout


def differences(old: Path, new: Path, renamed: Names) -> Iterator[str]:
    """Yield what differs between two folders of runs, one line each."""
    folders = sorted(path.parent.relative_to(old) for path in old.rglob("summary.json"))
    others = sorted(path.parent.relative_to(new) for path in new.rglob("summary.json"))
    if not folders:
        yield "the old one left no finished run"
    if folders != others:
        yield f"runs: {[*map(str, folders)]} became {[*map(str, others)]}"
    for folder in sorted({*folders} & {*others}):
        for what in (*_tables(old / folder, new / folder, renamed), *_models(old, new, folder)):
            yield f"{folder}: {what}"
        before = dict(_numbers(json.loads((old / folder / "summary.json").read_text()), renamed))
        after = dict(_numbers(json.loads((new / folder / "summary.json").read_text()), {}))
        for key in sorted({*before} | {*after}):
            if before.get(key) != after.get(key):
                yield f"{folder}: summary: {key}: {before.get(key)} became {after.get(key)}"


def _tables(old: Path, new: Path, renamed: Names) -> Iterator[str]:
    before = {renamed.get(path.stem, path.stem): path for path in old.glob("*.parquet")}
    after = {path.stem: path for path in new.glob("*.parquet")}
    if before.keys() != after.keys():
        yield f"tables: {sorted(before)} became {sorted(after)}"
    for name in sorted({*before} & {*after}.difference(TIME_TABLES)):
        first, second = _columns(before[name], renamed), _columns(after[name], {})
        if first.keys() != second.keys():
            yield f"{name}: columns {sorted(first)} became {sorted(second)}"
        for column in sorted({*first} & {*second}):
            if first[column] != second[column]:
                yield f"{name}: {column} differs"


def _columns(path: Path, renamed: Names) -> dict[str, tuple[str, Any]]:
    """Return a table's columns as type and bytes, so that NaN equals NaN and 0 is not −0."""
    table = pq.read_table(path)
    return {
        renamed.get(name, name): (str(table[name].type), _bits(table[name]))
        for name in table.column_names
        if not name.endswith(TIME_COLUMNS)
    }


def _bits(column: Any) -> Any:
    values = column.to_numpy()
    return column.to_pylist() if values.dtype == object else values.tobytes()


def _models(old: Path, new: Path, folder: Path) -> Iterator[str]:
    first, second = (load_file(root / folder / "models.safetensors") for root in (old, new))
    if first.keys() != second.keys():
        yield f"models: {sorted(first)} became {sorted(second)}"
    for name in sorted({*first} & {*second}):
        one, other = first[name], second[name]
        if (one.dtype, one.shape) != (other.dtype, other.shape):
            yield f"models: {name}: {one.dtype}{one.shape} became {other.dtype}{other.shape}"
        elif one.tobytes() != other.tobytes():
            rows = np.flatnonzero((one.view(np.uint8) != other.view(np.uint8)).any(axis=1))
            yield f"models: {name} differs for peers {rows.tolist()}"


def _numbers(values: Any, renamed: Names, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the numbers and truths of a JSON file by their place; texts may be written better."""
    if isinstance(values, dict):
        for key, value in values.items():
            name = renamed.get(key, key)
            yield from _numbers(value, renamed, f"{path}.{name}" if path else name)
    elif isinstance(values, list):
        yield f"{path}.length", str(len(values))
        for place, value in enumerate(values):
            yield from _numbers(value, renamed, f"{path}.{place}")
    elif not isinstance(values, str):
        yield path, repr(values)


def compare_case(case: Case, old: Checkout, new: Checkout, renamed: Names) -> list[str]:
    """Run a case with both checkouts, at the same time, and return what differs."""
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda checkout: checkout.run(case), (old, new))
    return list(differences(first, second, renamed))


def compare_resumed(old: Checkout, new: Checkout, renamed: Names) -> list[str]:
    """Interrupt a run of the old checkout, and continue it with both."""
    folder = old.run_interrupted(RESUMED)
    if not list(folder.glob("*/checkpoints/*")):
        return ["the run was not interrupted, so nothing was continued"]
    copy = new.results / folder.name
    shutil.copytree(folder, copy)
    with ThreadPoolExecutor(2) as pool:
        resumed = [
            pool.submit(checkout.coterie, "resume", str(runs), "--threads", "1")
            for checkout, runs in ((old, folder), (new, copy))
        ]
        for future in resumed:
            future.result()
    return list(differences(folder, copy, renamed))


def check_readable(old: Checkout, new: Checkout) -> list[str]:
    """Read what the old checkout left with the commands of the new one that read runs."""
    folders = [path for path in old.results.iterdir() if list(path.glob("*/summary.json"))]
    if not folders:
        return ["the old one left no finished run"]
    folders.sort(key=lambda path: len(list(path.iterdir())))
    page, figures = new.results / "report.html", new.results / "figures"
    for folder in folders[-2:]:
        new.coterie("compare", str(folder))
    new.coterie("analyse", str(folders[0]))
    new.coterie("report", str(folders[0]), "-o", str(page))
    new.coterie("figures", str(folders[0]), "--out", str(figures))
    return []


def main() -> int:
    """Compare all cases, one line each; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    names = [*(case.name for case in CASES), RESUMED.name, READ]
    parser.add_argument("--only", nargs="+", metavar="CASE", help="parts of the cases' names")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the runs there")
    parser.add_argument("--renamed", nargs="+", default=[], metavar="OLD=NEW")
    options = parser.parse_args()
    renamed = dict(pair.split("=", 1) for pair in options.renamed)
    with tempfile.TemporaryDirectory() as temporary:
        root = (options.keep or Path(temporary)).resolve()
        old, new = (
            Checkout(source.resolve(), root / name)
            for source, name in ((options.old, "old"), (options.new, "new"))
        )
        runners = {
            **{
                case.name: lambda case=case: compare_case(case, old, new, renamed) for case in CASES
            },
            RESUMED.name: partial(compare_resumed, old, new, renamed),
            READ: partial(check_readable, old, new),
        }
        chosen = [
            name for name in names if not options.only or any(part in name for part in options.only)
        ]
        return _report(old, new, {name: runners[name] for name in chosen})


def _report(old: Checkout, new: Checkout, cases: Mapping[str, Any]) -> int:
    old.check()
    new.check()
    failed = 0
    for number, (name, compare) in enumerate(cases.items(), start=1):
        began = time.monotonic()
        print(f"{number}/{len(cases)} {name} … ", end="", flush=True)
        try:
            found: Sequence[str] = compare()
        except CheckoutError as error:
            found = [str(error)]
        failed += bool(found)
        print(f"{'DIFFERENT' if found else 'same'} ({time.monotonic() - began:.0f} s)", flush=True)
        for line in found[:20]:
            print(f"    {line}", flush=True)
        if len(found) > 20:
            print(f"    … and {len(found) - 20} more", flush=True)
    print(f"{failed} of {len(cases)} cases differ." if failed else "Nothing differs.")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())

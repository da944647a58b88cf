"""Damages run folders, settings and data files, and reads them with everything that reads them.

usage: python benchmarks/fuzz_files.py [--folders N] [--others N] [--jobs N] [--seed N] [--out FILE]

Every attempt must end with a documented exit code other than 1 and without a traceback, within ten
seconds, and take no more than half a gigabyte. A case depends on seed, sort and number only, so
`--only SORT --first N --count 1` shows one again.
"""

from __future__ import annotations

import argparse
import faulthandler
import gc
import json
import os
import platform
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from fuzzing.subjects import SORTS, make_folders

CODES = (0, 2, 3, 4, 5, 6, 130)
LIMIT_SECONDS = 10
"""How long one attempt may take, of processor time."""
HANG_SECONDS = 600
"""After how long the process is ended, by the clock: it may wait for something."""
STOP_SECONDS = 4
"""After how long an attempt that trains is stopped as by Ctrl-C."""
LIMIT_MEGABYTES = 512
GIGABYTES = 6
"""How much address space this process may take: what asks for more meets a MemoryError."""
SIGNS = (
    "Traceback",
    "pydantic",
    "[Errno",
    *("UserWarning:", "RuntimeWarning:", "DeprecationWarning:", "ResourceWarning:"),
    "instance of",
    "not iterable",
    "indices must",
)
"""What no message to a user may contain."""


class TooLongError(BaseException):
    """An attempt that did not end in time."""


def main() -> None:
    """Try as many cases as asked for; print and keep how they ended."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--folders", type=int, default=2000)
    parser.add_argument("--others", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=SORTS)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int)
    parser.add_argument("--jobs", type=int, default=1, help="How many processes share the work.")
    parser.add_argument("--out", type=Path, help="Keep the result in this file, as JSON.")
    parser.add_argument("--keep", type=Path, help="Keep what is damaged here, for the next time.")
    parser.add_argument("--log", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--bases", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.log is not None:
        work(options)
        return
    with tempfile.TemporaryDirectory(prefix="fuzz-files-") as scratch:
        bases = Path(scratch) / "bases"
        bases.mkdir()
        os.environ["COTERIE_OFFLINE"] = "1"
        if options.keep and options.keep.exists():
            shutil.copytree(options.keep, bases, dirs_exist_ok=True)
        else:
            make_folders(bases)
            if options.keep:
                shutil.copytree(bases, options.keep)
        sorts = [options.only] if options.only else list(SORTS)
        told = {}
        for sort in sorts:
            count = options.count or (options.folders if sort == "folders" else options.others)
            last = options.first + count
            share = -(-count // options.jobs)
            slices = [range(at, min(at + share, last)) for at in range(options.first, last, share)]
            with ThreadPoolExecutor(options.jobs) as pool:
                work_on = partial(tried, sort, options.seed, bases)
                told[sort] = summed_up(
                    [each for done in pool.map(work_on, slices) for each in done]
                )
            show(sort, told[sort])
    if options.out:
        about = {"seed": options.seed, "python": platform.python_version(), "limits": {
            "seconds": LIMIT_SECONDS, "megabytes": LIMIT_MEGABYTES}}  # fmt: skip
        options.out.write_text(json.dumps({**about, "sorts": told}, indent=1) + "\n")
    sys.exit(1 if any(each["defects"] for each in told.values()) else 0)


def tried(sort: str, seed: int, bases: Path, numbers: range) -> list[dict[str, Any]]:
    """Return how the attempts of all cases ended; what ends the process is an ending too."""
    log = bases.parent / f"{sort}-{numbers.start}.jsonl"
    done: list[dict[str, Any]] = []
    number = numbers.start
    while number < numbers.stop:
        log.write_text("")
        words = ["--log", log, "--bases", bases, "--only", sort, "--seed", seed, "--first", number]
        words += ["--count", numbers.stop - number]
        ended = subprocess.run(
            [sys.executable, __file__, *map(str, words)],
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        done += [line for line in lines if "code" in line]
        if ended.returncode == 0:
            break
        begun: dict[str, Any] = lines[-1] if lines else {"number": number, "attempt": "?"}
        what = f"ended the process with {ended.returncode}: {ended.stderr[-1500:]}"
        done.append({**begun, "code": "crash", "defect": what, "seconds": 0.0, "megabytes": 0})
        number = begun["number"] + 1
    return done


def work(options: argparse.Namespace) -> None:
    """Try cases, and write down each attempt before and after."""
    warnings.simplefilter("error")  # what is printed as a warning is not for users either
    warnings.filterwarnings("ignore", ".*fork.*", DeprecationWarning)
    bytes_allowed = GIGABYTES << 30
    resource.setrlimit(resource.RLIMIT_AS, (bytes_allowed, bytes_allowed))
    gc.freeze()  # what was imported is not looked at again
    with options.log.open("a", buffering=1) as log:
        for number in range(options.first, options.first + options.count):
            if number % 10 == 0:
                gc.collect()
            log.write(json.dumps({"number": number, "attempt": "making"}) + "\n")
            with tempfile.TemporaryDirectory(prefix="fuzz-case-") as folder:
                chance = random.Random(f"{options.seed} {options.only} {number}")  # noqa: S311 — to be repeated
                with SORTS[options.only](options.bases, Path(folder), chance) as calls:
                    for attempt, call in calls:
                        about = {"number": number, "attempt": attempt}
                        log.write(json.dumps(about) + "\n")
                        log.write(json.dumps(about | attempted(attempt, call)) + "\n")
                shutil.rmtree(os.fsencode(folder), ignore_errors=True)
                os.mkdir(folder)  # for the context manager, which does not know odd names


def attempted(attempt: str, call: Callable[[], tuple[int, str]]) -> dict[str, Any]:
    """Return how an attempt ended, what it took, and what is wrong with that."""
    _forget_peak()
    before = _memory("VmRSS")
    may_stop = attempt in ("resume", "run")
    faulthandler.dump_traceback_later(HANG_SECONDS, exit=True)
    signal.signal(signal.SIGPROF, _Alarm(may_stop))
    signal.setitimer(signal.ITIMER_PROF, STOP_SECONDS if may_stop else LIMIT_SECONDS, LIMIT_SECONDS)
    begun, defect, said = time.process_time(), "", ""
    code: int | str = "raised"
    try:
        code, said = call()
    except TooLongError:
        code, defect = (
            "too long",
            f"took more than {LIMIT_SECONDS} seconds\n{traceback.format_exc()}",
        )
    except BaseException:  # whatever it is, a user would have met it
        defect = traceback.format_exc()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        faulthandler.cancel_dump_traceback_later()
    megabytes = max(_memory("VmHWM") - before, 0)
    if not defect and code not in CODES:
        defect = f"ended with {code}: {said[-1500:]}"
    if not defect and any(sign in said for sign in SIGNS):
        defect = f"said {said[-1500:]}"
    if not defect and len(said) > 100_000:
        defect = f"said {len(said)} characters"
    if not defect and megabytes > LIMIT_MEGABYTES:
        defect = f"took {megabytes} MB"
    seconds = round(time.process_time() - begun, 3)
    return {"code": code, "defect": defect, "seconds": seconds, "megabytes": megabytes}


class _Alarm:
    """Stops an attempt: as Ctrl-C does if it may train, and by force at the second time."""

    def __init__(self, may_stop: bool) -> None:
        self._asks = may_stop

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self._asks:
            self._asks = False
            signal.raise_signal(signal.SIGINT)
            return
        raise TooLongError


def _forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def _memory(name: str) -> int:
    """Return a figure of this process's memory, in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith(name))


def summed_up(attempts: list[dict[str, Any]]) -> dict[str, Any]:
    """Return how often attempts ended how, and every distinct defect with a case that shows it."""
    codes: dict[str, Counter[str]] = {}
    defects: dict[str, dict[str, Any]] = {}
    for each in attempts:
        codes.setdefault(each["attempt"], Counter())[str(each["code"])] += 1
        if each["defect"]:
            lines = each["defect"].strip().splitlines()
            places = [line.strip() for line in lines if 'File "' in line]
            sign = " | ".join([each["attempt"], *places[-1:], lines[-1][:160]])
            known = defects.setdefault(
                sign, {"number": each["number"], "count": 0, "text": each["defect"]}
            )
            known["count"] += 1
    return {
        "cases": len({each["number"] for each in attempts}),
        "attempts": len(attempts),
        "codes": dict(sum(codes.values(), Counter())),
        "by attempt": {name: dict(found) for name, found in codes.items()},
        "seconds by attempt": {
            name: round(sum(each["seconds"] for each in attempts if each["attempt"] == name), 1)
            for name in codes
        },
        "slowest seconds": max(each["seconds"] for each in attempts),
        "most megabytes": max(each["megabytes"] for each in attempts),
        "defects": defects,
    }


def show(sort: str, told: dict[str, Any]) -> None:
    """Print how a sort of files fared."""
    print(f"{sort}: {told['cases']} cases, {told['attempts']} attempts", flush=True)
    for name, codes in told["by attempt"].items():
        print(
            f"  {name:10} {told['seconds by attempt'][name]:7.1f} s; "
            + ", ".join(f"{code}: {n}" for code, n in sorted(codes.items()))
        )
    print(f"  slowest {told['slowest seconds']:.1f} s, most {told['most megabytes']} MB")
    for sign, defect in told["defects"].items():
        print(f"  DEFECT {defect['count']}× (case {defect['number']}): {sign}", flush=True)


if __name__ == "__main__":
    main()

"""Break rules of the algorithms, one at a time, and see whether the tests notice.

usage: python tools/break_rules.py [CHECKOUT] [--only TEXT ...] [--at-once N]

Works in copies of the checkout. Each break of `rule_breaks.py` is applied alone; then the test
files it names run until the first failure. The exit code is 1 if a break is not noticed or cannot
be made, or if tests fail without any break.
"""

from __future__ import annotations

import argparse
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rule_breaks import BREAKS, Break

ROOT = Path(__file__).resolve().parent.parent
LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv", "build", "site", "runs", "*.egg-info", "__pycache__", ".*_cache", ".hypothesis"
)
SOURCES = (".py", ".c", ".h")
PASSED, FAILED = 0, 1
"""pytest's exit codes; others mean that it could not run the tests."""


class BreakError(Exception):
    """A break cannot be made, or tests do not run."""


class Copy:
    """A copy of a checkout, which can be broken and mended again."""

    def __init__(self, checkout: Path, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(checkout, folder, ignore=LEFT_OUT)
        self._sources = {
            path: path.read_text()
            for path in sorted((folder / "src").rglob("*"))
            if path.suffix in SOURCES
        }

    def test_files(self, names: Iterable[str]) -> list[str]:
        """Return where the test files of these names are."""
        files = []
        for name in names:
            found = sorted((self.folder / "tests").rglob(f"{name}.py"))
            if len(found) != 1:
                raise BreakError(f"there are {len(found)} test files {name}.py instead of one")
            files.append(str(found[0]))
        return files

    def notices(self, broken: Break) -> bool:
        """Whether the tests fail with the break."""
        files = self.test_files(broken.tests.split())
        changed = self._changed(broken)
        libraries = list((self.folder / "src").rglob("_kernels*.so"))
        is_compiled = any(path.suffix != ".py" for path in changed)
        kept = {path: path.read_bytes() for path in libraries} if is_compiled else {}
        try:
            for path, text in changed.items():
                path.write_text(text)
            if is_compiled:
                self._compile()
            return self.test(files) == FAILED
        finally:
            for path in changed:
                path.write_text(self._sources[path])
            for path, content in kept.items():
                path.write_bytes(content)

    def test(self, files: list[str]) -> int:
        """Run test files until the first failure; return pytest's exit code."""
        done = self._run("-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *files)
        if done.returncode not in (PASSED, FAILED):
            raise BreakError(f"the tests cannot run:\n{done.stdout[-1500:]}")
        if done.returncode == FAILED and "\nFAILED " not in done.stdout:
            raise BreakError(f"the tests cannot be set up:\n{done.stdout[-1500:]}")
        return done.returncode

    def _changed(self, broken: Break) -> dict[Path, str]:
        """Return the files a break changes, with their new text."""
        changed: dict[Path, str] = {}
        for old, new in broken.edits:
            files = [path for path, text in self._sources.items() if old in text]
            if len(files) != 1 or self._sources[files[0]].count(old) != 1:
                raise BreakError(f"occurs {self._count(old)} times instead of once: {old!r}")
            text = changed.get(files[0], self._sources[files[0]])
            changed[files[0]] = text.replace(old, new)
        return changed

    def _count(self, text: str) -> int:
        return sum(source.count(text) for source in self._sources.values())

    def _compile(self) -> None:
        for path in (self.folder / "src").rglob("_kernels*.so"):
            path.unlink()
        done = self._run("setup.py", "--quiet", "build_ext", "--inplace", "--force")
        if done.returncode or not list((self.folder / "src").rglob("_kernels*.so")):
            raise BreakError(f"cannot be compiled:\n{done.stderr[-1500:]}")

    def _run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=self.folder,
            env={
                **os.environ,
                "PYTHONPATH": str(self.folder / "src"),
                "PYTHONDONTWRITEBYTECODE": "1",
            },
            capture_output=True,
            text=True,
            check=False,
        )


def main() -> int:
    """Try all breaks, one line each; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("checkout", type=Path, nargs="?", default=ROOT)
    parser.add_argument("--only", nargs="+", metavar="TEXT", help="parts of the rules' names")
    parser.add_argument("--at-once", type=int, default=1, metavar="N")
    options = parser.parse_args()
    breaks = [b for b in BREAKS if not options.only or any(t in b.rule for t in options.only)]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.at_once) as pool:
        copies: queue.Queue[Copy] = queue.Queue()
        for number in range(options.at_once):
            copies.put(Copy(options.checkout.resolve(), Path(folder) / str(number)))

        def tried(broken: Break) -> tuple[str, float]:
            began, copy = time.monotonic(), copies.get()
            try:
                found = "caught" if copy.notices(broken) else "NOT CAUGHT"
            except BreakError as error:
                found = f"NOT TRIED: {error}"
            finally:
                copies.put(copy)
            return found, time.monotonic() - began

        if not _pass_whole(copies, breaks):
            return 1
        num_caught = 0
        for number, (broken, (found, seconds)) in enumerate(
            zip(breaks, pool.map(tried, breaks), strict=True), start=1
        ):
            num_caught += found == "caught"
            print(f"{number}/{len(breaks)} {broken.rule}: {found} ({seconds:.0f} s)", flush=True)
    print(f"{num_caught} of {len(breaks)} breaks are caught.")
    return int(num_caught < len(breaks))


def _pass_whole(copies: queue.Queue[Copy], breaks: list[Break]) -> bool:
    """Whether all tests pass while nothing is broken; otherwise their failing would say nothing."""
    copy = copies.get()
    names = dict.fromkeys(name for broken in breaks for name in broken.tests.split())
    try:
        files = copy.test_files(names)
        print(f"{len(files)} test files without any break … ", end="", flush=True)
        passed = copy.test(files) == PASSED
    except BreakError as error:
        passed = False
        print(error)
    print("passed" if passed else "FAILED", flush=True)
    copies.put(copy)
    return passed


if __name__ == "__main__":
    sys.exit(main())

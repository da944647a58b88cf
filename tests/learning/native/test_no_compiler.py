"""Where there is no C compiler, the package is installed all the same, without the library."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_an_installation_without_a_compiler_goes_on_and_says_so(tmp_path):
    built = tmp_path / "built"
    (tmp_path / "temporary").mkdir()
    done = subprocess.run(
        [
            *(sys.executable, "setup.py", "build_ext", "--force"),
            *("--build-lib", built, "--build-temp", tmp_path / "temporary"),
        ],
        cwd=ROOT,
        env={**os.environ, "CC": "no-such-compiler"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert '"coterie.learning.native._kernels" failed' in done.stdout + done.stderr
    assert "no-such-compiler" in done.stdout + done.stderr
    assert not list(built.rglob("_kernels*"))

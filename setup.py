"""Builds the compiled trainer, if there is a C compiler; without one, torch does the training.

The kernels are compiled once for each level of processor, and the best one is chosen at run time,
so that what is built here runs on every machine of the same architecture.
"""

from __future__ import annotations

import platform
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

SOURCE = Path("src/coterie/learning/native/source")
# No -ffast-math: NaN and infinity must stay visible. No -march=native: others run it too.
FLAGS = ["-std=gnu11", "-O3", "-fno-math-errno", "-fvisibility=hidden", "-Wno-psabi"]
LEVELS = {"generic": []}
if platform.machine().lower() in ("x86_64", "amd64"):
    LEVELS |= {"v2": ["-march=x86-64-v2"], "v3": ["-march=x86-64-v3"]}


class BuildKernels(build_ext):
    """Compiles the same source for several levels into one library without Python's headers."""

    def build_extension(self, extension: Extension) -> None:
        """Compile, link, and leave the library where Python would look for a module."""
        objects = []
        for level, flags in LEVELS.items():
            folder = Path(self.build_temp) / level
            objects += self.compiler.compile(
                [str(SOURCE / "kernels.c")],
                output_dir=str(folder),
                macros=[("LEVEL", level)],
                extra_preargs=[*FLAGS, *flags],
                depends=extension.depends,
            )
        objects += self.compiler.compile(
            [str(SOURCE / "dispatch.c")],
            output_dir=self.build_temp,
            macros=[(f"HAS_{level.upper()}", None) for level in LEVELS],
            extra_preargs=FLAGS,
        )
        target = Path(self.get_ext_fullpath(extension.name))
        target.parent.mkdir(parents=True, exist_ok=True)
        self.compiler.link_shared_object(objects, str(target), libraries=["m"])


setup(
    ext_modules=[]
    if sys.platform == "win32"
    else [
        Extension(
            "coterie.learning.native._kernels",
            sources=[str(SOURCE / "kernels.c"), str(SOURCE / "dispatch.c")],
            depends=[str(path) for path in sorted(SOURCE.glob("*.h"))],
            optional=True,
        )
    ],
    cmdclass={"build_ext": BuildKernels},
)

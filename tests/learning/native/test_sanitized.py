"""The kernels under AddressSanitizer and UndefinedBehaviorSanitizer, at every level."""

from __future__ import annotations

import math
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

import pytest
from extreme_chains import EXTREMES, IMPOSSIBLE
from hypothesis import given
from hypothesis import strategies as st
from native_bench import DIGITS_LIKE, LEVELS, chains, digits_like, tiled_chains
from networks import few
from torch import nn
from wider_networks import NETWORKS, build

import coterie.learning.native
from coterie.learning.native.library import CROSS_ENTROPY, OPTIMIZERS, SQUARED_ERROR
from coterie.learning.native.step import Step
from coterie.learning.native.translate_module import translate_module
from coterie.models.layout import Layout

SOURCE = Path(coterie.learning.native.__file__).parent / "source"
DRIVER = Path(__file__).parent / "driver.c"
COMPILER = shutil.which("cc")
SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
FLAGS = ["-std=gnu11", "-O1", "-g1", "-fno-omit-frame-pointer", "-Wno-psabi"]
MARCH = {"generic": [], "v2": ["-march=x86-64-v2"], "v3": ["-march=x86-64-v3"]}


@dataclass(frozen=True)
class Case:
    """One network and what is done with it; see driver.c."""

    steps: Sequence[Step]
    shape: tuple[int, ...]
    size: int
    regression: bool = False
    optimizer: str = "adam"
    batch: int = 8
    samples: int = 11
    epochs: int = 2
    first_layer: int = 0
    decay: float = 0.01

    def text(self) -> str:
        """Describe it to the driver."""
        loss = SQUARED_ERROR if self.regression else CROSS_ENTROPY
        shape = self.shape if len(self.shape) == 3 else (*self.shape, 1, 1)
        numbers = [len(self.steps), loss, *shape, self.size, OPTIMIZERS[self.optimizer]]
        numbers += [self.batch, self.samples, self.epochs, self.first_layer, self.decay]
        return " ".join(map(str, numbers)) + "\n" + "".join(map(_line, self.steps))


def _line(step: Step) -> str:
    fields: list[float] = []
    for value in astuple(step):
        fields += value if isinstance(value, tuple) else [value]
    return (
        " ".join(str(int(field) if isinstance(field, bool) else field) for field in fields) + "\n"
    )


def case_of(module: nn.Module, shape: tuple[int, ...], **options: object) -> Case:
    layout = Layout.of(module)
    return Case(translate_module(module, layout, shape), shape, layout.size, **options)


def random_cases() -> list[Case]:
    """Return chains as the gradient tests draw them, with any batches, optimisers and layers."""
    cases: list[Case] = []

    @given(
        chains() | tiled_chains(),
        st.sampled_from(sorted(OPTIMIZERS)),
        st.integers(1, 20),
        st.integers(1, 20),
        st.integers(0, 3),
    )
    @few(80)
    def collect(drawn, optimizer, batch, samples, first_layer):
        module, shape, num_classes = drawn
        options = {"optimizer": optimizer, "batch": batch, "samples": samples}
        cases.append(
            case_of(
                module, shape, regression=num_classes is None, first_layer=first_layer, **options
            )
        )

    collect()
    return cases


def extreme_cases() -> list[Case]:
    cases = [case_of(digits_like(), DIGITS_LIKE, batch=batch) for batch in (1, 7, 8, 9, 16, 64)]
    for shape, layers in EXTREMES.values():
        cases += [case_of(nn.Sequential(*layers), shape, samples=samples) for samples in (1, 8, 9)]
    dropping = nn.Sequential(nn.Conv2d(2, 3, 2), nn.Dropout(0.5), nn.Flatten(), nn.Linear(168, 2))
    return [*cases, case_of(dropping, DIGITS_LIKE)]


def wider_cases() -> list[Case]:
    """Return normalisations, sums and embeddings, with batches of one group and of several."""
    return [
        case_of(build(name), NETWORKS[name][1], batch=batch, samples=18, decay=decay, **options)
        for name in NETWORKS
        for batch, decay in ((3, 0.01), (8, 0.0), (18, 0.0))
        for options in ({}, {"first_layer": 2, "optimizer": "adamw"})
    ]


def impossible_cases() -> list[Case]:
    return [Case(steps, (1, 1, 1), 2**12) for steps in IMPOSSIBLE.values()]


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> dict[str, Path]:
    """Return the driver, built for the oldest and the newest level that run here."""
    folder = tmp_path_factory.mktemp("sanitized")
    if COMPILER is None:
        pytest.skip("there is no C compiler")
    (folder / "empty.c").write_text("int main(void) { return 0; }\n")
    trial = [COMPILER, *SANITIZERS, str(folder / "empty.c"), "-o", str(folder / "empty")]
    if subprocess.run(trial, capture_output=True, check=False).returncode:
        pytest.skip("the C compiler has no sanitizers")
    programs = {level: folder / level for level in dict.fromkeys((LEVELS[0], LEVELS[-1]))}
    compilers = [
        subprocess.Popen(
            [
                COMPILER,
                *FLAGS,
                *SANITIZERS,
                *MARCH[level],
                f"-DLEVEL={level}",
                f"-I{SOURCE}",
                str(DRIVER),
                str(SOURCE / "dispatch.c"),
                "-o",
                str(program),
                "-lm",
            ],
            stderr=subprocess.PIPE,
            text=True,
        )
        for level, program in programs.items()
    ]
    for compiler in compilers:
        _, complaints = compiler.communicate()
        assert compiler.returncode == 0, complaints
    return programs


def run(program: Path, cases: Sequence[Case]) -> list[str]:
    done = subprocess.run(
        [program],
        input="".join(case.text() for case in cases),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[:4000]
    answers = done.stdout.splitlines()
    assert len(answers) == len(cases)
    return answers


@pytest.mark.parametrize("level", dict.fromkeys((LEVELS[0], LEVELS[-1])))
@pytest.mark.parametrize("make_cases", [random_cases, extreme_cases, wider_cases])
def test_no_access_outside_memory_and_nothing_undefined(built, level, make_cases):
    cases = make_cases()
    for answer, case in zip(run(built[level], cases), cases, strict=True):
        assert all(math.isfinite(float(value)) for value in answer.split()), (answer, case)


@pytest.mark.parametrize("level", dict.fromkeys((LEVELS[0], LEVELS[-1])))
def test_impossible_sizes_are_refused_without_overflow(built, level):
    answers = run(built[level], impossible_cases())
    assert dict(zip(IMPOSSIBLE, answers, strict=True)) == dict.fromkeys(IMPOSSIBLE, "refused")


def test_one_value_beside_the_callers_memory_is_noticed(built):
    """A model one value too short: otherwise nothing above could fail."""
    case = case_of(nn.Sequential(nn.Flatten(), nn.Linear(6, 2)), (1, 2, 3))
    assert case.size == 14
    program = built[LEVELS[-1]]
    run(program, [case])
    short = Case(case.steps, case.shape, case.size - 1)
    done = subprocess.run(
        [program], input=short.text(), capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "heap-buffer-overflow" in done.stderr


def test_a_window_of_more_than_32_bits_is_no_overflow(built):
    """Its size is 2³², of which all but one value are padding."""
    side = 2**16
    layers = [nn.AvgPool2d(side, stride=side, padding=side // 2), nn.Flatten(), nn.Linear(1, 2)]
    module = nn.Sequential(*layers)
    for program in built.values():
        (answer,) = run(program, [case_of(module, (1, 1, 1))])
        assert all(math.isfinite(float(value)) for value in answer.split())

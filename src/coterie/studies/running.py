"""Running a study: each folder is one experiment, begun, continued or extended.

FOLDER/study.yaml   which study it is
FOLDER/PLACE/       the runs of one setting, or of several that share them; see `experiment`
FOLDER/study.md     the tables
FOLDER/results.csv  one row per setting and run
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import yaml
from rich.table import Table

from coterie.data.dataset_catalogue import load_dataset
from coterie.errors import (
    ConfigError,
    CoterieError,
    DataError,
    Interrupted,
    StorageError,
    WorkerDied,
)
from coterie.experiments.config import LINEAR, RunConfig
from coterie.experiments.experiment import EXPERIMENT, Experiment, run_name
from coterie.experiments.run_folder import RunFolder
from coterie.reports.comparison_tables import format_duration
from coterie.reports.final_table import build_final_table
from coterie.results.published_comparison import comparison, differences
from coterie.storage.files import explain_errors, make_folder, read_small, write_text
from coterie.storage.yaml_text import parse_yaml
from coterie.studies.base import Part, Setting, Study
from coterie.studies.estimate import seconds_left

STUDY = "study.yaml"
Say = Callable[[str], None]


def open_study(folder: Path, study: Study) -> None:
    """Make the folder of a study; one that holds something else is refused."""
    with explain_errors(f"use {folder} as output folder"):
        if (folder / STUDY).exists():
            return _check_study(folder, study)
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise StorageError(
                f"Cannot use {folder} as output folder. It holds something else than a study; "
                "choose another with --out."
            )
    make_folder(folder)
    write_text(folder / STUDY, yaml.safe_dump({"study": study.name}))
    return None


def _check_study(folder: Path, study: Study) -> None:
    try:
        found = parse_yaml(read_small(folder / STUDY).decode())
    except ValueError:
        found = None
    if found != {"study": study.name}:
        raise StorageError(
            f"{folder / STUDY} does not say that this is a folder of the study {study.name}. "
            "Choose another with --out."
        )


def check_unchanged(folder: Path, parts: Sequence[Part]) -> None:
    """Refuse to mix what is asked for with runs of other settings that are there."""
    for part in parts:
        there = {run.folder.name: run.config for run in _runs_of(folder / part.place)}
        for config in part.configs:
            name = run_name(config)
            if name in there and (found := differences(there[name], config)):
                raise ConfigError(
                    f"{folder / part.place / name} is there with other settings; now asked for: "
                    f"{'; '.join(found)}. Ask for the same as before, or choose another folder "
                    "with --out."
                )


def _runs_of(folder: Path) -> list[RunFolder]:
    return Experiment.open(folder).runs if (folder / EXPERIMENT).exists() else []


def unfinished(folder: Path, part: Part) -> list[RunConfig]:
    """Return the runs that are asked for and have not finished."""
    done = {run.folder.name for run in _runs_of(folder / part.place) if run.read_summary()}
    return [config for config in part.configs if run_name(config) not in done]


def run_parts(
    folder: Path,
    parts: Sequence[Part],
    run: Callable[[Experiment], None],
    say: Say,
    threads: int = 1,
) -> None:
    """Run, or continue, everything that has not finished; `threads` are for the estimate.

    What fails, or lacks its data, costs the others nothing, and is an error in the end.
    """
    problems: dict[str, CoterieError] = {}
    lacking: dict[tuple[str, ...], DataError] = {}
    waiting = [part for part in parts if unfinished(folder, part)]
    for number, part in enumerate(waiting):
        left = format_duration(_seconds_left(folder, waiting[number:], threads))
        say(
            f"{part.place} ({number + 1} of {len(waiting)} to run): {len(part.configs)} runs; "
            f"about {left} left in all"
        )
        try:
            _check_data(part.configs[0], lacking)
            experiment = prepared(folder / part.place, part.configs)
            run(experiment)
            if experiment.was_asked_to_stop and number + 1 < len(waiting):
                raise Interrupted(f"Stopped; {part.place} has finished.")
        except (StorageError, WorkerDied):
            raise  # the next one would meet the same
        except CoterieError as error:
            problems[part.place] = error
            skipped = "skipped" if isinstance(error, DataError) else "not finished"
            say(f"{part.place} is {skipped}: {_first_sentence(error)}")
    if problems:
        raise _all_in_one(problems, len(parts))


def _seconds_left(folder: Path, parts: Sequence[Part], threads: int) -> float:
    """Estimate by the finished runs of these parts' folders, and of the folders beside them."""
    waiting = [config for part in parts for config in unfinished(folder, part)]
    places = (path.parent for path in sorted(folder.glob(f"*/{EXPERIMENT}")))
    finished = (run for place in places for run in _runs_of(place) if run.read_summary())
    return seconds_left(waiting, finished, threads)


def _first_sentence(error: CoterieError) -> str:
    """Return the beginning of a message that is told in full at the end."""
    return re.split(r"(?<=\.)\s", str(error))[0]


def _all_in_one(problems: dict[str, CoterieError], num_parts: int) -> CoterieError:
    """Return one error for all settings that are not finished; its kind is that of the first."""
    places: dict[str, list[str]] = {}
    for place, error in problems.items():
        places.setdefault(str(error), []).append(place)
    told = "\n".join(f"{', '.join(names)}: {text}" for text, names in places.items())
    first = next(iter(problems.values()))
    return type(first)(f"{len(problems)} of {num_parts} settings are not finished.\n{told}")


def _check_data(config: RunConfig, lacking: dict[tuple[str, ...], DataError]) -> None:
    """Find out whether there are data, and do not look in vain for the same ones twice."""
    names = config.data.datasets
    if names in lacking:
        raise lacking[names]
    try:
        for name in names:
            if name != LINEAR:
                load_dataset(name, config.data.root)
    except DataError as error:
        lacking[names] = error
        raise


def published_tables_of(folder: Path, settings: Sequence[Setting]) -> Iterator[Table]:
    """Yield what the finished runs of each setting reached, beside the published numbers."""
    for setting in settings:
        finished = [run for run in _runs_of(folder / setting.place) if run.read_summary()]
        summaries = [reached for run in finished if (reached := run.read_summary())]
        if summaries:
            compared = comparison([run.config for run in finished])
            yield build_final_table(setting.name, summaries, compared)


def prepared(folder: Path, configs: Sequence[RunConfig]) -> Experiment:
    """Return the experiment of a folder with these runs alone; those it lacks are added."""
    whole = Experiment(folder, _runs_of(folder))
    there = {run.folder.name for run in whole.runs}
    whole.add([config for config in configs if run_name(config) not in there])
    asked = {run_name(config) for config in configs}
    whole.runs = [run for run in whole.runs if run.folder.name in asked]
    return whole

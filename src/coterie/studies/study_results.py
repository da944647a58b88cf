"""The results of a study: one row per setting and run."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import TypeAdapter, ValidationError

from coterie.attacks.poison_settings import PoisonSettings
from coterie.data.drift import NoDrift
from coterie.errors import CoterieError, StorageError
from coterie.experiments.config import RunConfig
from coterie.experiments.experiment import Experiment
from coterie.experiments.experiment_file import EXPERIMENT
from coterie.experiments.run_folder import RunFolder
from coterie.experiments.run_summary import RunSummary
from coterie.results.analyses.columns import by_round, columns, mean, of_all_peers
from coterie.results.analyses.neighbours import fetched_precision
from coterie.results.analyses.recovery import recovery, recovery_per_shift
from coterie.results.analyses.unfetched import never_fetched, unfetched_at_the_end
from coterie.storage.files import explain_errors
from coterie.studies.base import Setting, Study
from coterie.tasks import TaskScore

LOCAL = "local"
"""The label of training without merging, which every strategy should beat."""
HARM = 0.02
"""How much worse than Local counts as harm: two points of accuracy, or 2% of a squared error."""
EARLY = (10, 20)
"""The rounds around which the share of models from the own cluster is measured."""
AROUND = 2
WINDOW = 10
"""The number of rounds before a shift whose mean is the level before it."""


@dataclass(frozen=True)
class StudyResult:
    """The results of one run; accuracies and shares between 0 and 1; NaN: unknown or undefined.

    All except traffic and time are means over honest peers only.
    """

    setting: str
    group: str
    strategy: str
    seed: int
    rounds: int
    peers: int
    is_accuracy: bool
    test: float
    """Accuracy, or squared error, of the peers' best models at the end."""
    test_other: float
    """The same by the other rule for the best model."""
    harmed: float
    """The share of peers that end worse than Local with the same seed, by more than `HARM`."""
    lost: float
    """With poisoned peers: the mean loss of honest peers, compared with the same strategy and seed
    without poison. If only one cluster is poisoned, only its peers count."""
    own_cluster_10: float
    """The share of fetched models that are from the own cluster, around round 10."""
    own_cluster_20: float
    never_fetched: float
    """The share of peers whose model was never fetched."""
    over_time: float
    """Under drift: the mean test result over all rounds with a test."""
    drop: float
    """Under drift: how much validation drops at a shift, mean over shifts."""
    recovery_rounds: float
    """Under drift: rounds to regain 95%, mean over the shifts after which this was reached."""
    models_per_peer: float
    """Sent and received."""
    cpu_seconds: float
    """The median of a round, because rounds with tests take longer."""


@dataclass(frozen=True)
class _Finished:
    """A finished run, with the last test and the cluster of each peer, (K,)."""

    result: StudyResult
    tests: npt.NDArray[np.float64]
    clusters: npt.NDArray[np.float64]
    poison: PoisonSettings


def read_results(study: Study, folder: Path, problems: list[str]) -> list[StudyResult]:
    """Return the results of all finished runs, in the study's order."""
    names = dict.fromkeys(setting.folder_name for setting in study.settings)
    finished = {name: _finished(folder / name, problems) for name in names}
    return [
        each
        for setting in study.settings
        for each in _results_of(setting, finished[setting.folder_name])
    ]


def _results_of(setting: Setting, finished: dict[tuple[str, int], _Finished]) -> list[StudyResult]:
    found = []
    for label in setting.labels:
        for (name, seed), run in finished.items():
            if name != label:
                continue
            harmed = math.nan
            if (local := finished.get((LOCAL, seed))) and label != LOCAL:
                harmed = harmed_share(run.tests, local.tests, is_accuracy=run.result.is_accuracy)
            clean = finished.get((label.removesuffix(f"-{run.poison.kind}"), seed))
            lost = _lost(run, clean) if clean is not None and clean is not run else math.nan
            about = replace(run.result, setting=setting.name, group=setting.group)
            found.append(replace(about, harmed=harmed, lost=lost))
    return found


def harmed_share(
    ours: npt.NDArray[np.float64], local: npt.NDArray[np.float64], *, is_accuracy: bool
) -> float:
    """Return the share of peers that end worse than Local by more than `HARM`."""
    worse = local - ours > HARM if is_accuracy else ours > local * (1 + HARM)
    return mean(np.where(np.isnan(ours) | np.isnan(local), np.nan, worse))


def _lost(poisoned: _Finished, clean: _Finished) -> float:
    """Return how much worse honest peers are than without poison; poisoned peers have no tests."""
    sign = 1.0 if clean.result.is_accuracy else -1.0
    cluster = poisoned.poison.cluster
    affected = np.full(len(clean.tests), True) if cluster is None else clean.clusters == cluster
    return mean(sign * (clean.tests - poisoned.tests)[affected])


def _finished(folder: Path, problems: list[str]) -> dict[tuple[str, int], _Finished]:
    """Return the finished runs of a folder by label and seed; add errors to `problems`."""
    if not (folder / EXPERIMENT).exists():
        return {}

    found = {}
    try:
        runs = Experiment.open(folder, problems).runs
    except CoterieError as error:
        problems.append(str(error))
        return {}
    for run in runs:
        try:
            if (summary := run.read_summary()) is not None:
                found[run.config.label, run.config.seed] = _read(run, summary)
        except StorageError as error:
            problems.append(str(error))
    return dict(sorted(found.items(), key=lambda item: item[0][1]))


def _read(run: RunFolder, summary: RunSummary) -> _Finished:
    config = run.config
    metrics = run.metrics
    early = [_own_cluster(run, number) for number in EARLY]
    timings = columns(run.timings)
    result = StudyResult(
        setting="",
        group="",
        strategy=config.label,
        seed=config.seed,
        rounds=config.rounds,
        peers=config.peers.count,
        is_accuracy=summary.score.is_share,
        test=summary.mean,
        test_other=mean(_last(metrics, "test_score_other", config.peers.count)),
        harmed=math.nan,
        lost=math.nan,
        own_cluster_10=early[0],
        own_cluster_20=early[1],
        never_fetched=_never_fetched(run),
        **_under_drift(config, metrics, summary.score),
        models_per_peer=summary.models_per_peer,
        cpu_seconds=_median(timings["cpu_seconds"][timings["round"] > 0]),
    )
    tests, clusters = (
        _last(metrics, column, config.peers.count) for column in ("test_score", "cluster")
    )
    return _Finished(result, tests, clusters, config.poison)


def _last(metrics: pa.Table, column: str, num_peers: int) -> npt.NDArray[np.float64]:
    """Return each peer's value in the last round, (K,); NaN if it was not measured."""
    values = np.full(num_peers, np.nan)
    if column in metrics.column_names:
        last = metrics.filter(pc.equal(metrics["round"], pc.max(metrics["round"])))
        values[last["peer"].to_numpy()] = last[column].to_numpy()
    return values


def _own_cluster(run: RunFolder, number: int) -> float:
    detail = fetched_precision(run.neighbours)
    if not detail.num_rows:
        return math.nan
    every = columns(of_all_peers(detail), "round", "precision")
    return mean(every["precision"][np.abs(every["round"] - number) <= AROUND])


def _never_fetched(run: RunFolder) -> float:
    detail = never_fetched(run.exchanges, run.metrics)
    if not detail.num_rows:
        return math.nan
    [row] = unfetched_at_the_end(detail, WINDOW).to_pylist()
    return float(row["share_never_fetched"])


def _under_drift(config: RunConfig, metrics: pa.Table, score: TaskScore) -> dict[str, float]:
    """Return the columns about drift: mean over time, drop at a shift, rounds to recover."""
    unknown = dict.fromkeys(("over_time", "drop", "recovery_rounds"), math.nan)
    if isinstance(config.drift, NoDrift):
        return unknown
    tests = columns(metrics, "round", "test_score")
    over_time = mean([mean(rows["test_score"]) for _, rows in by_round(tests)])
    detail = recovery(metrics, WINDOW, score)
    if not detail.num_rows:
        return {**unknown, "over_time": over_time}
    last = recovery_per_shift(detail, WINDOW).to_pylist()[-1]
    return {"over_time": over_time, "drop": last["drop"], "recovery_rounds": last["rounds_to_95"]}


def _median(values: npt.NDArray[np.float64]) -> float:
    return float(np.median(values)) if len(values) else math.nan


def csv_text(found: Sequence[StudyResult]) -> str:
    """Return the results as CSV; unknown values are empty."""
    file = io.StringIO()
    writer = csv.DictWriter(file, [each.name for each in fields(StudyResult)], lineterminator="\n")
    writer.writeheader()
    for result in found:
        writer.writerow({key: _written(value) for key, value in asdict(result).items()})
    return file.getvalue()


def _written(value: object) -> object:
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.6g}"
    return value


def read_csv(path: Path) -> list[StudyResult]:
    """Read results that `csv_text` wrote."""
    adapter = TypeAdapter(StudyResult)
    try:
        with explain_errors(f"read {path}"), path.open(newline="") as file:
            rows = [
                {k: v if v != "" else "nan" for k, v in row.items()} for row in csv.DictReader(file)
            ]
        return [adapter.validate_python(row) for row in rows]
    except (ValidationError, csv.Error, UnicodeDecodeError):
        raise StorageError(f"{path} is damaged: expected the results.csv of a study.") from None

"""Presets on naturally divided data: the peers are real, and no true clusters are known.

The learning rate (0.0003, 0.001 or 0.003) and the epochs (1 or 3) of each preset were chosen by the
mean validation of Local, Random and Kin on seeds 100 and 101, so results of other seeds are not
tuned. Those of natural-shakespeare were not varied. The options of strategies are their defaults;
only phases that count rounds are shorter, as the runs are.
"""

from __future__ import annotations

from pathlib import Path

from coterie.data.own_files.settings import AnyFile, ArrayFile, PlayText, TableFile
from coterie.data.scenario import PeerSettings
from coterie.experiments.config import DataSettings, ModelSettings, RunConfig
from coterie.experiments.presets.preset import Preset, Variant, default_variant
from coterie.learning.settings import TrainingSettings

FOLDER = Path("natural")
"""The folder of the files in the data root."""
FETCHES = 5


def _variants(
    config: RunConfig, *, changes_over_time: bool, has_classes: bool
) -> tuple[Variant, ...]:
    """Return the strategies that need no true clusters, and one model on all data as a ceiling."""
    most, rounds = config.peers.count - 1, config.rounds
    fetches = min(FETCHES, most)
    pens = {
        "fetches": max(1, fetches // 2),
        "samples": min(3 * FETCHES, most),
        "samplings": 2,
        "exploration_rounds": rounds // 4,
        "exploration_epochs": config.training.epochs,
        "later_fetches": fetches,
        **({} if has_classes else {"metric": "inverse-loss"}),
    }
    panm = {"fetches": fetches, "confident_rounds": rounds // 3}
    hast = (default_variant("hast", min(3, most)),) if changes_over_time else ()
    return (
        default_variant("local"),
        default_variant("random", fetches),
        Variant("fedavg", {"name": "fedavg", "fetches": min(20, most + 1)}),
        default_variant("dac", fetches),
        Variant("pens", {"name": "pens", **pens}),
        Variant("panm", {"name": "panm", **panm}),
        *hast,
        default_variant("kin", fetches),
        Variant("central", {"name": "central", "scope": "all"}),
    )


def _preset(
    name: str,
    summary: str,
    files: AnyFile,
    peers: tuple[int, int, int],
    model: ModelSettings,
    training: TrainingSettings,
    rounds: int,
    *,
    has_classes: bool = True,
) -> Preset:
    """Return a preset; `peers` are their number and mean training and validation samples."""
    count, train_size, validation_size = peers
    config = RunConfig(
        preset=name,
        data=DataSettings(datasets=(files.path.name,), files=files),
        peers=PeerSettings(count=count, train_size=train_size, validation_size=validation_size),
        model=model,
        training=training,
        strategy={"name": "random", "fetches": min(FETCHES, count - 1)},
        rounds=rounds,
    )
    has_time = isinstance(files, TableFile) and bool(files.time)
    variants = _variants(config, changes_over_time=has_time, has_classes=has_classes)
    return Preset(name, summary, config, variants)


PRESETS = (
    _preset(
        "natural-wisdm",
        "six activities from a phone's accelerometer, 36 people (WISDM)",
        TableFile(
            path=FOLDER / "wisdm.csv",
            sha256="8dad6c3daa29ade72763a6a9bb3d957db33409294c2debcbb3e94f9ae4902b49",
            peers_by="user",
            label="activity",
            ignore=("id",),
        ),
        (36, 90, 30),
        ModelSettings(name="small-mlp", input_shape=(46,)),
        TrainingSettings(learning_rate=3e-3, epochs=3, batch_size=16),
        rounds=40,
    ),
    _preset(
        "natural-air",
        "hourly PM2.5 from other gases and the weather, 11 stations, 4 years (Beijing air)",
        TableFile(
            path=FOLDER / "beijing-air.csv.gz",
            sha256="6d53014685b9c8b57cce69ebc29dbf5ecb2d69bd4719528e38329e7ae1752a4a",
            peers_by="station",
            label="PM2.5",
            ignore=("PM10",),
            time=("year", "month", "day", "hour"),
            windows=24,
            min_rows=10,
        ),
        (11, 1166, 291),
        ModelSettings(name="small-mlp", input_shape=(26,)),
        TrainingSettings(learning_rate=3e-3, epochs=1, batch_size=32),
        rounds=92,
        has_classes=False,
    ),
    _preset(
        "natural-heart",
        "heart disease from 13 features, 4 hospitals (UCI Heart Disease)",
        TableFile(
            path=FOLDER / "heart.csv",
            sha256="dd113fc1434eced305e18937bf521f158de0cc8b0886151868347dbed445ec31",
            peers_by="hospital",
            label="disease",
        ),
        (4, 138, 46),
        ModelSettings(name="small-mlp", input_shape=(23,)),
        TrainingSettings(learning_rate=1e-3, epochs=1, batch_size=16),
        rounds=40,
    ),
    _preset(
        "natural-school",
        "exam scores of pupils, 139 schools (ILEA)",
        TableFile(
            path=FOLDER / "school.csv",
            sha256="7a70d0585c0b4cb113815cd112d697a6a77e822ede99c05d271f8e5f6adb7005",
            peers_by="school",
            label="score",
        ),
        (139, 66, 22),
        ModelSettings(name="small-mlp", input_shape=(28,)),
        TrainingSettings(learning_rate=3e-3, epochs=3, batch_size=16),
        rounds=40,
        has_classes=False,
    ),
    _preset(
        "natural-shakespeare",
        "the next character, 36 speaking roles (Shakespeare)",
        PlayText(
            path=FOLDER / "shakespeare.txt",
            sha256="86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
            length=20,
            stride=5,
            min_characters=10_000,
        ),
        (36, 2016, 669),
        ModelSettings(name="text-mlp", input_shape=(20,)),
        TrainingSettings(learning_rate=1e-3, epochs=1, batch_size=32),
        rounds=25,
    ),
    _preset(
        "natural-speech",
        "spoken digits, 50 recordings of each of 6 speakers (Free Spoken Digits)",
        ArrayFile(
            path=FOLDER / "spoken-digits.npz",
            sha256="a6d583fc0ba60c49679458955185d1b4180c229a3caed73e30751c609358b7b6",
            most_training=50,
        ),
        (6, 50, 100),
        ModelSettings(name="small-cnn", input_shape=(1, 32, 32)),
        TrainingSettings(learning_rate=3e-3, epochs=3, batch_size=16),
        rounds=40,
    ),
)

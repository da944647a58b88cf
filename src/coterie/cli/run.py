"""`coterie run`: run strategies on the same data, with the same initial weights."""

from __future__ import annotations

from coterie.cli.console import print_message
from coterie.cli.options import (
    Address,
    Changes,
    DataRoot,
    Device,
    EngineName,
    FeatureColumns,
    FirstSeedOrOwn,
    IgnoredColumns,
    ImageSize,
    LabelColumn,
    Log,
    MinRows,
    Model,
    Out,
    OwnTask,
    Peers,
    PeersBy,
    PresetOrData,
    Rounds,
    Scale,
    SeedsOrOwn,
    Shards,
    SideBySide,
    Strategies,
    StrategyFiles,
    Threads,
    TimeColumns,
    Trainer,
    Windows,
    check_scalable,
    collect_changes,
    listed,
    named_strategies,
    new_folder,
)
from coterie.cli.show_run import note_how_to_continue, open_engine, run_and_show
from coterie.cli.watch import Watch, show_live
from coterie.errors import ConfigError


def run(
    preset: PresetOrData = "digits",
    peers_by: PeersBy = None,
    label: LabelColumn = None,
    features: FeatureColumns = None,
    ignore: IgnoredColumns = None,
    time: TimeColumns = None,
    windows: Windows = None,
    min_rows: MinRows = None,
    image_size: ImageSize = None,
    model: Model = None,
    task: OwnTask = None,
    strategy: Strategies = None,
    strategy_file: StrategyFiles = None,
    seed: FirstSeedOrOwn = None,
    seeds: SeedsOrOwn = None,
    rounds: Rounds = None,
    peers: Peers = None,
    scale: Scale = 1.0,
    change: Changes = None,
    data_root: DataRoot = None,
    folder: Out = None,
    trainer: Trainer = None,
    device: Device = None,
    threads: Threads = None,
    side_by_side: SideBySide = None,
    engine: EngineName = "local",
    address: Address = None,
    shards: Shards = None,
    log: Log = None,
    live: Watch = False,
) -> None:
    """Run an experiment: several strategies on the same data, with the same initial weights."""
    from coterie.experiments.config import check_sizes
    from coterie.experiments.experiment import Experiment
    from coterie.experiments.presets.choose_preset import choose_preset
    from coterie.experiments.presets.own_files import FileOptions
    from coterie.experiments.user_models import load_model
    from coterie.experiments.user_strategies import load_installed, load_strategies
    from coterie.experiments.user_tasks import load_task

    load_installed(print_message)
    own = load_strategies(strategy_file)
    own_model = load_model(model) if model else None
    options = FileOptions(
        peers_by,
        label,
        listed(features),
        listed(ignore),
        listed(time),
        windows,
        min_rows,
        image_size,
    )
    chosen = choose_preset(preset, options, own_model, data_root, print_message)
    changes = collect_changes(rounds, peers, data_root, trainer, device, change)
    if task:
        changes["task.file"] = load_task(task)
    check_scalable(chosen.config, peers, scale)
    labels = named_strategies(strategy) or chosen.labels_with(own)
    configs = chosen.runs(labels, chosen.choose_seeds(seed, seeds), changes, scale=scale)
    if any(config.runtime == "network" for config in configs):
        raise ConfigError(f"{preset} is for real peers. Type: coterie swarm --preset {preset}")
    check_sizes(configs)
    for note in chosen.describe_lowered_options(configs):
        print_message(note)
    folder = folder or new_folder(chosen.name)
    with (
        note_how_to_continue(folder),
        show_live(folder, live),
        open_engine(engine, address, threads, side_by_side, shards) as opened,
    ):
        experiment = Experiment.create(folder, configs)
        run_and_show(experiment, chosen.name, threads, side_by_side, log, opened)

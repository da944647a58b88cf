"""`coterie list`: all presets, studies, strategies, models and datasets."""

from __future__ import annotations

from rich.table import Table

from coterie.cli.console import out


def list_everything() -> None:
    """List presets, studies, strategies, models and datasets."""
    from coterie.data.dataset_catalogue import DATASETS
    from coterie.experiments.config import LINEAR
    from coterie.experiments.presets import PRESETS
    from coterie.models.architectures import ARCHITECTURES
    from coterie.models.fitting_models import FITTING
    from coterie.strategies import STRATEGIES
    from coterie.studies.study_list import STUDIES

    for title, rows in (
        ("presets", {name: preset.summary for name, preset in PRESETS.items()}),
        ("studies", {name: each.summary for name, each in STUDIES.items()}),
        ("strategies", {name: strategy.summary for name, strategy in STRATEGIES.items()}),
        (
            "models",
            {
                name: f"{model.num_parameters:>10,} parameters: {model.summary}"
                for name, model in ARCHITECTURES.items()
            }
            | {
                name: f"{'as needed':>10} parameters: {about}"
                for name, (_, about) in FITTING.items()
            },
        ),
        (
            "datasets",
            {
                **{name: entry.title for name, entry in DATASETS.items()},
                LINEAR: "Linear regression on 10 features, generated",
                "FILE.npz": "Your own data: train_images, train_labels, test_images, test_labels",
                "TABLE.csv": "Your own data, whose owners a column names: coterie run TABLE.csv",
            },
        ),
    ):
        table = Table(title=title, title_justify="left", show_header=False, box=None)
        for name, summary in rows.items():
            table.add_row(f"[bold]{name}[/]", summary)
        out.print(table)
        out.print()

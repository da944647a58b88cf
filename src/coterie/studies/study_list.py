"""All studies, by name."""

from __future__ import annotations

from coterie.errors import ConfigError, suggest
from coterie.studies.base import Study
from coterie.studies.kin import KIN
from coterie.studies.papers import PAPERS

STUDIES: dict[str, Study] = {study.name: study for study in (KIN, PAPERS)}


def find_study(name: str) -> Study:
    """Return a study; raise a ConfigError with the nearest name if it does not exist."""
    if name not in STUDIES:
        raise ConfigError(f"There is no study '{name}'.{suggest(name, STUDIES)}")
    return STUDIES[name]

"""The studies there are, by name."""

from __future__ import annotations

from coterie.errors import ConfigError, suggest
from coterie.studies.base import Study
from coterie.studies.kin import KIN
from coterie.studies.papers import PAPERS

STUDIES: dict[str, Study] = {study.name: study for study in (KIN, PAPERS)}


def find_study(name: str) -> Study:
    """Return a study; an unknown name is a ConfigError that names the nearest."""
    if name not in STUDIES:
        raise ConfigError(f"There is no study '{name}'.{suggest(name, STUDIES)}")
    return STUDIES[name]

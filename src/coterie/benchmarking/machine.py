"""Describes the machine of a measurement."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from coterie.experiments.provenance import software_versions
from coterie.learning.native.library import Library, find_library


def describe_machine() -> dict[str, Any]:
    """Return the date, processor, versions, and the level of compiled code or why there is none."""
    library = find_library()
    compiled = (
        {"level": library.level}
        if isinstance(library, Library)
        else {"level": None, "why_not_compiled": library}
    )
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "cpu": cpu_name(),
        "cores": os.cpu_count(),
        **compiled,
        "versions": software_versions(),
    }


def cpu_name() -> str:
    """Return the processor's name, as far as the system knows it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    named = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor())

"""Where benchmarks print their figures, and keep them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def show(figures: dict[str, Any], name: str, *, save: bool) -> None:
    """Print figures, and keep them under their date and a name."""
    text = json.dumps(figures, indent=2)
    print(text)
    if save:
        RESULTS.mkdir(exist_ok=True)
        path = RESULTS / f"{figures['date']}-{name}.json"
        path.write_text(text + "\n")
        print(f"kept in {path}")

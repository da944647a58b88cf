"""Models from a user's Python file: FILE.py:FUNCTION.

RUN/model.json  the function and file of a run's model, if it is not one of Coterie's

The function takes no arguments, or (input_shape, num_outputs), and returns a new torch module.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from coterie.errors import ConfigError, StorageError, suggest
from coterie.experiments.user_code import CodeOrigin, code_origin, read_file_name
from coterie.models.architectures import ARCHITECTURES
from coterie.models.fitting_models import FITTING, OWN_MODELS
from coterie.storage.files import explain_errors, write_text

ORIGIN = "model.json"
OPTION = "--model"
EXPECTED = "FILE.py:FUNCTION"


def load_model(text: str) -> str:
    """Return the name of a model; the function of FILE.py:FUNCTION is loaded first."""
    if text in ARCHITECTURES or text in FITTING:
        return text
    if ".py" not in text:
        raise ConfigError(
            f"{OPTION} {text}: there is no such model. Give {EXPECTED}, or a name."
            f"{suggest(text, (*ARCHITECTURES, *FITTING))}"
        )
    named = read_file_name(OPTION, text, EXPECTED)
    found = vars(named.load()).get(named.wanted) if named.wanted else None
    if not callable(found):
        raise ConfigError(
            f"{OPTION} {text}: the file has no function '{named.wanted}'."
            if named.wanted
            else f"{OPTION} {text}: name the function that returns the model: {text}:FUNCTION."
        )
    name = f"{named.path.name}:{named.wanted}"
    OWN_MODELS[name] = found
    return name


def write_model_origin(folder: Path, name: str) -> None:
    """Write where a run's model is defined, unless it is one of Coterie's."""
    if name in OWN_MODELS:
        origin = asdict(code_origin(OWN_MODELS[name]))
        write_text(folder / ORIGIN, json.dumps(origin, indent=2))


def check_model_known(name: str, run: Path, command: str) -> None:
    """Raise a ConfigError if a run's model is in a file that was not loaded; it says how."""
    if ".py:" not in name or name in OWN_MODELS:
        return
    origin = _read_origin(run)
    file = name.partition(":")[0] if origin is None or origin.file is None else origin.file
    gone = "" if Path(file).exists() else ", which does not exist any more"
    again = f"{file}:{name.partition(':')[2]}"
    raise ConfigError(
        f"The model of {run} is the function {name.partition(':')[2]} of {file}{gone}. Type: "
        f"{command} {OPTION} {shlex.quote(again)}"
    )


def report_changed_model(name: str, run: Path, tell: Callable[[str], None]) -> None:
    """Report that the file of a model has changed since a run was started."""
    before = _read_origin(run)
    now = code_origin(OWN_MODELS[name]) if name in OWN_MODELS else None
    if before is not None and now is not None and before.sha256 != now.sha256:
        tell(f"{now.file} has changed since {run.name} was started: its model may differ.")


def _read_origin(run: Path) -> CodeOrigin | None:
    path = run / ORIGIN
    try:
        with explain_errors(f"read {path}"):
            return TypeAdapter(CodeOrigin).validate_json(path.read_bytes())
    except (StorageError, ValidationError):
        return None

"""Models from a user's Python file: FILE.py:FUNCTION.

The function takes no arguments, or (input_shape, num_outputs), and returns a new torch module.
"""

from __future__ import annotations

from coterie.errors import ConfigError, suggest
from coterie.experiments.user_code import read_file_name
from coterie.experiments.user_objects import UserObjects
from coterie.models.architectures import ARCHITECTURES
from coterie.models.fitting_models import FITTING, OWN_MODELS

OPTION = "--model"
EXPECTED = "FILE.py:FUNCTION"
USER_MODELS = UserObjects("model", OPTION, OWN_MODELS)


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

"""What users import: simulate your own module on your own data, and read recorded runs.

Heavy packages are imported inside the functions, so that `import coterie` and the command line
start fast.
"""

from coterie.api.callbacks import Callback
from coterie.api.result import Result
from coterie.api.run_simulation import simulate
from coterie.api.saved_runs import load_run, load_runs

__all__ = ["Callback", "Result", "load_run", "load_runs", "simulate"]

"""One module per figure: pure functions from runs to plain data that a component shows."""

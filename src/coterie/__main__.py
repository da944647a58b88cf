"""Runs `python -m coterie`, for systems where the command `coterie` is not on the path."""

from __future__ import annotations

from coterie.cli.main import main

main()

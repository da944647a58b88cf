"""The parts of docs/kin.md: kept results of a study, figures and text."""

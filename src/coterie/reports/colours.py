"""The colours of all figures: Okabe and Ito's palette, which colour-blind people can read."""

from __future__ import annotations

BLACK, GREY = "#000000", "#999999"
ORANGE, SKY_BLUE, GREEN, YELLOW = "#E69F00", "#56B4E9", "#009E73", "#F0E442"
BLUE, VERMILION, PURPLE = "#0072B2", "#D55E00", "#CC79A7"

PALETTE = {
    "blue": BLUE,
    "orange": ORANGE,
    "green": GREEN,
    "purple": PURPLE,
    "sky blue": SKY_BLUE,
    "vermilion": VERMILION,
    "yellow": YELLOW,
    "grey": GREY,
}
"""Colours by name, in the order of use; all are visible on white and on dark grounds."""

HELPED, HARMED = BLUE, VERMILION
"""The colours of peers that gained and that were harmed; not green and red."""
SEQUENTIAL = ("#FFFFFF", "#D6E6F4", "#ABCFE5", "#6AAED6", "#3787C0", "#105BA4", "#08306B")
"""The colours of heatmaps, from low to high; they differ in lightness only."""

_CLUSTERS = tuple(PALETTE.values())
_STRATEGIES = (VERMILION, BLUE, GREEN, ORANGE, PURPLE, SKY_BLUE, GREY, YELLOW)


def cluster_colour(index: int) -> str:
    """Return the colour of a cluster by its number; after eight, colours repeat."""
    return _CLUSTERS[index % len(_CLUSTERS)]


def strategy_colour(index: int) -> str:
    """Return the colour of a strategy by its index; after eight, colours repeat."""
    return _STRATEGIES[index % len(_STRATEGIES)]

"""The colours of all figures: Okabe and Ito's palette, which colour-blind people can tell apart."""

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
"""Names to colours, in the order of use; each can be seen on white and on near black."""

HELPED, HARMED = BLUE, VERMILION
"""What shows whether something went well or badly: never green against red."""
SEQUENTIAL = ("#FFFFFF", "#D6E6F4", "#ABCFE5", "#6AAED6", "#3787C0", "#105BA4", "#08306B")
"""From nothing to much, for heatmaps; lightness alone carries the order."""

_CLUSTERS = tuple(PALETTE.values())
_STRATEGIES = (VERMILION, BLUE, GREEN, ORANGE, PURPLE, SKY_BLUE, GREY, YELLOW)


def cluster_colour(index: int) -> str:
    """Return the colour of a cluster by its number; after eight they begin again."""
    return _CLUSTERS[index % len(_CLUSTERS)]


def strategy_colour(index: int) -> str:
    """Return the colour of a strategy by its place among those shown; after eight they repeat."""
    return _STRATEGIES[index % len(_STRATEGIES)]

"""Normalises and rotates arrays of images."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def normalise(images: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Scale uint8 pixels to [-1, 1]; floats stay as they are."""
    if images.dtype != np.uint8:
        return images.astype(np.float32, copy=False)
    return images.astype(np.float32) / np.float32(127.5) - np.float32(1.0)


def rotate(images: npt.NDArray[np.float32], degrees: float) -> npt.NDArray[np.float32]:
    """Rotate normalised images (n, C, H, W) counter-clockwise about their centre.

    Pixels are nearest neighbours; those from outside the image become mid-grey (0 after
    normalising). Multiples of 90° are exact on square images.
    """
    degrees %= 360
    height, width = images.shape[-2:]
    if degrees % 180 == 0 or (degrees % 90 == 0 and height == width):
        return np.rot90(images, k=int(degrees // 90), axes=(-2, -1))
    angle = np.deg2rad(degrees)
    down, right = np.meshgrid(
        np.arange(height) - (height - 1) / 2, np.arange(width) - (width - 1) / 2, indexing="ij"
    )
    # Where each pixel of the result comes from: its position turned back, clockwise.
    from_right = np.cos(angle) * right - np.sin(angle) * down + (width - 1) / 2
    from_down = np.sin(angle) * right + np.cos(angle) * down + (height - 1) / 2
    # Rounded first, so that floating-point noise does not decide exact ties.
    column = np.floor(from_right.round(9) + 0.5).astype(np.int64)
    row = np.floor(from_down.round(9) + 0.5).astype(np.int64)
    inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
    turned = images[..., row.clip(0, height - 1), column.clip(0, width - 1)]
    turned[..., ~inside] = 0.0
    return turned

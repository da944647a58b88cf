"""Normalising and rotating: exact where it can be exact, nearest neighbour elsewhere."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from coterie.data.images import normalise, rotate

FEW = settings(max_examples=40, deadline=None, derandomize=True)


def _images(count=2, channels=3, height=32, width=32, seed=0):
    """Random images without a single 0, so that filled pixels differ from given ones."""
    random = np.random.default_rng(seed)
    shape = (count, channels, height, width)
    sign = random.choice(np.array([-1, 1], dtype=np.float32), shape)
    return sign * random.uniform(0.01, 1.0, shape).astype(np.float32)


def _pillow(image, degrees):
    return np.asarray(Image.fromarray(image).rotate(degrees, Image.Resampling.NEAREST))


def test_every_pixel_value_is_scaled_to_one_and_normalised_by_one_half():
    pixels = np.arange(256, dtype=np.uint8).reshape(1, 1, 16, 16)
    result = normalise(pixels)
    assert result.dtype == np.float32
    assert result.shape == pixels.shape
    np.testing.assert_allclose(result, (pixels / 255 - 0.5) / 0.5, atol=1e-6)
    assert result.min() == -1.0
    assert result.max() == 1.0
    assert result[0, 0, 7, 15] < 0 < result[0, 0, 8, 0]


def test_normalising_leaves_the_given_pixels_alone():
    pixels = np.array([[[[0, 255]]]], dtype=np.uint8)
    normalise(pixels)[:] = 7
    assert pixels.tolist() == [[[[0, 255]]]]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_floats_stay_as_they_are(dtype):
    values = np.array([[-300.0, 0.0, 0.5, 255.0]], dtype=dtype)
    result = normalise(values)
    assert result.dtype == np.float32
    assert result.tolist() == values.tolist()


def test_rotation_is_counter_clockwise():
    image = np.array([[[[1, 2], [3, 4]]]], dtype=np.float32)
    assert rotate(image, 90).tolist() == [[[[2, 4], [1, 3]]]]
    assert rotate(image, 270).tolist() == [[[[3, 1], [4, 2]]]]


@pytest.mark.parametrize("side", [1, 5, 8, 28])
@pytest.mark.parametrize("degrees", [0, 90, 180, 270, 360, 450, -90, -180, 90.0, 810])
def test_multiples_of_90_are_exact(degrees, side):
    images = _images(height=side, width=side)
    turns = int(degrees) // 90
    np.testing.assert_array_equal(rotate(images, degrees), np.rot90(images, turns, axes=(2, 3)))


@pytest.mark.parametrize("shape", [(32, 32), (6, 9), (7, 4)])
def test_180_turns_upside_down_and_left_to_right(shape):
    images = _images(height=shape[0], width=shape[1])
    turned = rotate(images, 180)
    np.testing.assert_array_equal(turned, images[:, :, ::-1, ::-1])
    assert (turned != images[:, :, ::-1, :]).any(), "a vertical flip is not a rotation"
    assert (turned != images[:, :, :, ::-1]).any(), "a horizontal flip is not a rotation"


def test_quarter_turn_of_oblong_images_keeps_their_shape():
    images = _images(height=5, width=9)
    turned = rotate(images, 90)
    assert turned.shape == images.shape
    np.testing.assert_array_equal(turned[:, :, :, 2:7], np.rot90(images[:, :, :, 2:7], axes=(2, 3)))
    assert not turned[:, :, :, [0, 1, 7, 8]].any()


@pytest.mark.parametrize("degrees", [90, 270])
@pytest.mark.parametrize("shape", [(20, 33), (5, 8), (6, 9), (20, 34)])
def test_quarter_turn_of_oblong_images_takes_no_pixel_twice(shape, degrees):
    image = np.arange(1, 1 + shape[0] * shape[1], dtype=np.float32).reshape(1, 1, *shape)
    turned = rotate(image, degrees)
    taken = turned[turned != 0]
    assert len(np.unique(taken)) == len(taken)


@pytest.mark.parametrize("degrees", [1, 10, 33.3, 45, 137, 350, -10])
def test_every_pixel_is_taken_from_its_own_image_and_channel_or_grey(degrees):
    images = _images()
    turned = rotate(images, degrees)
    assert turned.dtype == np.float32
    for result, given_ in zip(turned.reshape(6, -1), images.reshape(6, -1), strict=True):
        assert np.isin(result, np.append(given_, np.float32(0))).all()
        assert np.isin(result, given_).sum() > 0.8 * len(given_)


@pytest.mark.parametrize("degrees", [10, 45, 77.7, 200, 350])
@pytest.mark.parametrize("side", [5, 27])
def test_the_centre_stays_where_it_is(side, degrees):
    images = _images(height=side, width=side)
    middle = side // 2
    np.testing.assert_array_equal(
        rotate(images, degrees)[:, :, middle, middle], images[:, :, middle, middle]
    )


def test_corners_are_filled_with_mid_grey():
    turned = rotate(_images(), 45)
    corners = turned[:, :, [0, 0, -1, -1], [0, -1, 0, -1]]
    assert (corners == 0.0).all()
    assert normalise(np.array([127], dtype=np.uint8)) < 0 < normalise(np.array([128], np.uint8))


@pytest.mark.parametrize(("degrees", "filled_at_most"), [(1, 0.01), (10, 0.09), (-10, 0.09)])
def test_small_angles_keep_most_pixels(degrees, filled_at_most):
    images = _images()
    turned = rotate(images, degrees)
    assert (turned == 0).mean() <= filled_at_most
    if degrees == 1:
        assert (turned == images).mean() > 0.6


@pytest.mark.parametrize("shape", [(32, 32), (28, 28), (31, 31), (20, 34)])
@pytest.mark.parametrize("degrees", [10, 350, 45, 90, 123.4, 180, 211, 270, -30])
def test_agrees_with_pillow(degrees, shape):
    image = _images(1, 1, *shape)
    turned = rotate(image, degrees)[0, 0]
    assert (turned != _pillow(image[0, 0], degrees)).mean() < 0.02
    if degrees % 180:
        assert (turned != _pillow(image[0, 0], -degrees)).mean() > 0.5


def test_ten_degrees_and_350_turn_opposite_ways():
    images = _images(1, 1)
    mirrored = rotate(images[:, :, :, ::-1], 350)[:, :, :, ::-1]
    assert (rotate(images, 10) != mirrored).mean() < 0.01
    assert (rotate(images, 10) != rotate(images, 350)).mean() > 0.5


def test_images_of_a_batch_turn_independently_and_stay_unchanged():
    images = _images(4)
    before = images.copy()
    turned = rotate(images, 25)
    np.testing.assert_array_equal(images, before)
    for position in range(4):
        np.testing.assert_array_equal(
            turned[position : position + 1], rotate(images[[position]], 25)
        )


@FEW
@given(degrees=st.integers(-1000, 1000), height=st.integers(1, 9), width=st.integers(1, 9))
def test_a_full_turn_changes_nothing(degrees, height, width):
    images = _images(1, 2, height, width)
    turned = rotate(images, degrees)
    assert turned.shape == images.shape
    np.testing.assert_array_equal(turned, rotate(images, degrees + 360))
    assert np.isin(turned, np.append(images, np.float32(0))).all()

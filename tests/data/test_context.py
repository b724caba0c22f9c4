"""Context images: deterministic, of the form of the training images, and of the kinds that they are said to be."""

import numpy as np
import pytest

from fsgmcmc.data import context_images
from fsgmcmc.data.context import KINDS

FROM_IMAGES = ("shuffle", "invert")


def training_images(shape, seed=0, count=6):
    return np.random.default_rng(seed).integers(0, 256, (count, *shape)).astype(np.uint8)


@pytest.mark.parametrize("shape", [(28, 28, 1), (32, 32, 3), (13, 11, 2)])
@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_a_function_of_the_seed_and_has_the_form_of_the_training_images(kind, shape):
    images = training_images(shape)
    made, again, other = (context_images(images, 9, seed, (kind,)) for seed in (0, 0, 1))
    assert made.dtype == np.uint8
    assert made.shape == (9, *shape)
    np.testing.assert_array_equal(made, again)
    assert (made != other).any()
    # Neither empty nor copies of a training image.
    assert made.std() > 5
    assert not (made[:, None] == images).all(axis=(2, 3, 4)).any()


@pytest.mark.parametrize("kind", KINDS)
def test_only_shuffled_and_inverted_images_depend_on_the_training_images(kind):
    first, second = (context_images(training_images((28, 28, 1), seed), 8, kinds=(kind,)) for seed in (0, 1))
    assert (first != second).any() == (kind in FROM_IMAGES)


def test_shuffled_images_are_rearranged_blocks_and_inverted_images_are_negatives():
    images = training_images((60, 60, 1))  # divided by 2 to 6 blocks
    shuffled = context_images(images, 40, kinds=("shuffle",))
    pixels = {bytes(np.sort(image, axis=None)) for image in images}
    kept = [bytes(np.sort(image, axis=None)) in pixels for image in shuffled]
    assert np.mean(kept) > 0.5
    # Neighbours within a block stay neighbours: of a ramp, most differences are those of the ramp.
    ramp = np.broadcast_to(np.arange(60, dtype=np.uint8)[None, :, None, None], (1, 60, 60, 1))
    steps = np.diff(context_images(ramp, 20, kinds=("shuffle",)).astype(int), axis=1)
    assert 0.8 < np.mean(steps == 1) < 1
    negatives = 255 - context_images(images, 10, kinds=("invert",))
    assert (negatives[:, None] == images).all(axis=(2, 3, 4)).any(axis=1).all()


def test_kinds_have_equal_shares_in_random_order_and_wrong_arguments_are_refused():
    black = np.zeros((3, 28, 28, 1), np.uint8)
    made = context_images(black, 40, kinds=("invert", "shuffle"))
    white = made.all(axis=(1, 2, 3))
    assert white.sum() == 20
    assert np.abs(np.diff(white.astype(int))).sum() > 5
    with pytest.raises(ValueError, match="unknown kind photographs; choose from noise"):
        context_images(black, 4, kinds=("photographs",))
    with pytest.raises(TypeError, match="kinds"):
        context_images(black, 4, kinds="noise")
    with pytest.raises(ValueError, match="images must be bytes"):
        context_images(black / 255, 4)

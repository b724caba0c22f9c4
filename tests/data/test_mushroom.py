"""The mushrooms: letters become columns, a missing letter is one, and a damaged file is named."""

import os

import numpy as np
import pytest

from fsgmcmc import data

REAL = os.environ.get("FSGMCMC_DATA")


def write(root, *lines):
    (root / "mushroom").mkdir()
    (root / "mushroom/agaricus-lepiota.data").write_text("\n".join(lines) + "\n")
    return root


def line(label, first, rest="x"):
    return ",".join([label, first, *([rest] * 21)])


def test_letters_become_columns_and_missing_is_one_of_them(tmp_path):
    mushrooms = data.load_mushrooms(write(tmp_path, line("e", "a"), line("p", "?"), line("e", "b", "y")))
    assert mushrooms.columns[:3] == ((0, "?"), (0, "a"), (0, "b"))
    assert mushrooms.poisonous.tolist() == [False, True, False]
    np.testing.assert_array_equal(mushrooms.x[:, :3], [[0, 1, 0], [1, 0, 0], [0, 0, 1]])
    np.testing.assert_array_equal(mushrooms.x.sum(axis=1), 22)


@pytest.mark.parametrize("bad", ["e,a", line("x", "a"), ""], ids=["short", "neither", "empty"])
def test_a_damaged_file_is_named(bad, tmp_path):
    with pytest.raises(ValueError, match=r"agaricus-lepiota\.data.*copy it again"):
        data.load_mushrooms(write(tmp_path, bad))


def test_a_missing_file_tells_the_remedy(tmp_path):
    with pytest.raises(data.DataNotFoundError, match=r"--data DIR or FSGMCMC_DATA"):
        data.load_mushrooms(tmp_path)


@pytest.mark.skipif(REAL is None, reason="FSGMCMC_DATA does not name the real data")
def test_the_real_set_has_117_columns():
    mushrooms = data.load_mushrooms(REAL)
    assert mushrooms.x.shape == (8124, 117)
    assert mushrooms.poisonous.sum() == 3916

"""Image sets: the public layouts are read byte for byte, and a damaged file is named."""

import gzip
import os

import numpy as np
import pytest
import scipy.io

from fsgmcmc import data

REAL = os.environ.get("FSGMCMC_DATA")
RNG = np.random.default_rng(0)
PICTURES = RNG.integers(0, 256, (7, 28, 28), dtype=np.uint8)
COLOURED = RNG.integers(0, 256, (7, 32, 32, 3), dtype=np.uint8)
LABELS = np.array([3, 0, 9, 1, 1, 7, 2], np.uint8)


def idx(array: np.ndarray) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes() + array.tobytes()


def cifar(images: np.ndarray, labels: np.ndarray) -> bytes:
    planes = np.moveaxis(images, -1, 1).reshape(len(images), -1)
    return np.concatenate([labels[:, None], planes], axis=1).tobytes()


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A folder with small sets, none of which has a checksum."""
    monkeypatch.setattr(data.images, "MD5", {})
    for folder in ("mnist", "fashion-mnist", "cifar-10-batches-bin", "svhn"):
        (tmp_path / folder).mkdir()
    (tmp_path / "mnist/t10k-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(PICTURES)))
    (tmp_path / "mnist/t10k-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(LABELS)))
    (tmp_path / "fashion-mnist/train-images-idx3-ubyte").write_bytes(idx(PICTURES))
    (tmp_path / "fashion-mnist/train-labels-idx1-ubyte").write_bytes(idx(LABELS))
    (tmp_path / "cifar-10-batches-bin/data_batch_1.bin").write_bytes(cifar(COLOURED[:4], LABELS[:4]))
    (tmp_path / "cifar-10-batches-bin/data_batch_3.bin").write_bytes(cifar(COLOURED[4:], LABELS[4:]))
    labels = np.where(LABELS == 0, 10, LABELS)[:, None]
    scipy.io.savemat(tmp_path / "svhn/test_32x32.mat", {"X": np.moveaxis(COLOURED, 0, -1), "y": labels})
    return tmp_path


@pytest.mark.parametrize(
    ("name", "part", "pictures"),
    [
        ("mnist", "test", PICTURES[..., None]),
        ("fashion", "train", PICTURES[..., None]),
        ("cifar10", "train", COLOURED),
        ("svhn", "test", COLOURED),
    ],
)
def test_every_layout_is_read_as_it_was_written(root, name, part, pictures):
    loaded = data.load_images(name, part, root)
    np.testing.assert_array_equal(loaded.x, pictures)
    np.testing.assert_array_equal(loaded.y, LABELS)


def test_cifar_uses_the_batches_it_finds_and_says_which(root):
    assert data.load_images("cifar10", "train", root).files == ("data_batch_1.bin", "data_batch_3.bin")


@pytest.mark.parametrize(
    ("name", "part", "file", "spoil", "sentence"),
    [
        ("mnist", "test", "mnist/t10k-images-idx3-ubyte.gz", lambda b: b[:-20], "cannot be decompressed"),
        ("mnist", "test", "mnist/t10k-images-idx3-ubyte.gz", lambda b: b"PK" + b[2:], "cannot be decompressed"),
        (
            "mnist",
            "test",
            "mnist/t10k-labels-idx1-ubyte.gz",
            lambda b: gzip.compress(idx(LABELS[:5])),
            "7 images and 5",
        ),
        ("fashion", "train", "fashion-mnist/train-images-idx3-ubyte", lambda b: b[:-1], "bytes for shape"),
        ("fashion", "train", "fashion-mnist/train-images-idx3-ubyte", lambda b: b"", "is not an idx file"),
        ("fashion", "train", "fashion-mnist/train-labels-idx1-ubyte", lambda b: idx(LABELS + 4), "label 13"),
        ("cifar10", "train", "cifar-10-batches-bin/data_batch_1.bin", lambda b: b[:-3], "records of 3073 bytes"),
        ("svhn", "test", "svhn/test_32x32.mat", lambda b: b[:200], "is not an SVHN file"),
    ],
)
def test_a_damaged_file_is_named(root, name, part, file, spoil, sentence):
    path = root / file
    path.write_bytes(spoil(path.read_bytes()))
    with pytest.raises(ValueError, match=sentence):
        data.load_images(name, part, root)


def test_a_missing_file_tells_the_remedy(root):
    with pytest.raises(
        data.DataNotFoundError, match=r"train-images-idx3-ubyte\.gz is missing.*--data DIR.*FSGMCMC_DATA"
    ):
        data.load_images("mnist", "train", root)
    with pytest.raises(data.DataNotFoundError, match=r"test_batch\.bin is missing"):
        data.load_images("cifar10", "test", root)


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match="choose from mnist, fashion, cifar10, svhn"):
        data.load_images("minst", "train")
    with pytest.raises(ValueError, match="'train' or 'test'"):
        data.load_images("mnist", "validation")


def test_another_file_than_the_public_one_is_read_with_a_warning(root, monkeypatch):
    monkeypatch.setattr(data.images, "MD5", {"mnist/t10k-images-idx3-ubyte.gz": "0" * 32})
    with pytest.warns(UserWarning, match="not the public file"):
        data.load_images("mnist", "test", root)


def test_a_subset_is_one_of_its_seed_and_keeps_pairs_together(root):
    whole = data.load_images("mnist", "test", root)
    some, again, other = whole.some(4, seed=1), whole.some(4, seed=1), whole.some(4, seed=2)
    np.testing.assert_array_equal(some.x, again.x)
    assert not np.array_equal(some.y, other.y)
    for picture, label in zip(some.x, some.y, strict=True):
        assert label in whole.y[(whole.x == picture).all(axis=(1, 2, 3))]


def test_pixels_have_mean_zero_and_variance_one_in_every_channel():
    images = COLOURED.copy()
    images[..., 2] = 9
    scale = data.PixelScale.fit(images)
    scaled = scale(images)
    np.testing.assert_allclose(scaled.mean(axis=(0, 1, 2)), 0, atol=1e-5)
    np.testing.assert_allclose(scaled.std(axis=(0, 1, 2)), [1, 1, 0], atol=1e-5)


@pytest.mark.skipif(REAL is None, reason="FSGMCMC_DATA does not name the real data")
@pytest.mark.parametrize(("name", "part", "rows"), [("mnist", "train", 60_000), ("fashion", "test", 10_000)])
def test_the_public_files_have_their_checksums(name, part, rows):
    images = data.load_images(name, part, REAL)
    assert images.x.shape == (rows, 28, 28, 1)
    assert np.bincount(images.y).min() > 0.08 * rows

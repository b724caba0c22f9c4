"""Images with labels, in their public file layouts.

- `mnist/` and `fashion-mnist/`: `train-images-idx3-ubyte.gz` and the three other idx files, with or without gzip
- `cifar-10-batches-bin/`: `data_batch_1.bin` to `data_batch_5.bin`, or some of them, and `test_batch.bin`
- `svhn/`: `test_32x32.mat`, and optionally `train_32x32.mat`
"""

import gzip
import hashlib
import warnings
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float32, Int32, UInt8

from fsgmcmc import _checks
from fsgmcmc.data.places import DataNotFoundError, root_of

CLASSES = 10
PARTS = ("train", "test")
CIFAR_RECORD = 1 + 32 * 32 * 3

MD5 = {
    "mnist/train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
    "mnist/train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432",
    "mnist/t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
    "mnist/t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
    "fashion-mnist/train-images-idx3-ubyte.gz": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
    "fashion-mnist/train-labels-idx1-ubyte.gz": "25c81989df183df01b3e8a0aad5dffbe",
    "fashion-mnist/t10k-images-idx3-ubyte.gz": "bef4ecab320f06d8554ea6380940ec79",
    "fashion-mnist/t10k-labels-idx1-ubyte.gz": "bb300cfdad3c16e7a12a480ee83cd310",
    "cifar-10-batches-bin/data_batch_1.bin": "5dd7e06a14cb22eb9f671a540d1b7c25",
    "cifar-10-batches-bin/data_batch_2.bin": "5ea93a67294ea407fff1d09f752e9692",
    "cifar-10-batches-bin/test_batch.bin": "803d5f7f4d78ea53de84dbe85f74fb6d",
}
"""MD5 of public files, by folder and name; other files are only checked for their format."""


@dataclass(frozen=True, eq=False)
class Images:
    """Images (n, height, width, channels) as bytes, their labels, and their files."""

    name: str
    x: UInt8[np.ndarray, "n height width channels"]
    y: Int32[np.ndarray, " n"]
    files: tuple[str, ...]

    def some(self, rows: int, seed: int) -> "Images":
        """A random subset of at most `rows` images."""
        chosen = np.random.default_rng(seed).permutation(len(self.x))[: _checks.count(rows, "rows")]
        return Images(self.name, self.x[chosen], self.y[chosen], self.files)


@dataclass(frozen=True, eq=False)
class PixelScale:
    """Standardisation of bytes: each channel has mean 0 and variance 1 over the training images.

    Example:
        >>> scale = PixelScale.fit(np.array([0, 255], np.uint8).reshape(2, 1, 1, 1))
        >>> scale(np.full((1, 1, 1, 1), 255, np.uint8)).item()
        1.0
    """

    mean: Float32[np.ndarray, " channels"]
    std: Float32[np.ndarray, " channels"]

    @classmethod
    def fit(cls, x: UInt8[np.ndarray, "n height width channels"]) -> "PixelScale":
        """Mean and standard deviation of each channel; a constant channel is only centred."""
        x = _checked(x)
        counts = np.stack([np.bincount(channel.ravel(), minlength=256) for channel in np.moveaxis(x, -1, 0)])
        shares, values = counts / counts.sum(axis=1, keepdims=True), np.arange(256.0)
        mean = shares @ values
        std = np.sqrt(np.maximum(shares @ values**2 - mean**2, 0))
        return cls(mean.astype(np.float32), np.where(std > 0, std, 1.0).astype(np.float32))

    def __call__(
        self, x: UInt8[np.ndarray, "n height width channels"]
    ) -> Float32[np.ndarray, "n height width channels"]:
        """Standardised images."""
        x = _checked(x)
        if x.shape[-1] != len(self.mean):
            raise ValueError(f"images have {x.shape[-1]} channels, the training images had {len(self.mean)}")
        return (x.astype(np.float32) - self.mean) / self.std


def _checked(x: np.ndarray) -> np.ndarray:
    if x.ndim != 4 or x.dtype != np.uint8 or len(x) == 0:
        raise ValueError(f"images must be bytes (n, height, width, channels), got {x.dtype} of shape {x.shape}")
    return x


def load_images(name: str, part: str, data: str | Path | None = None) -> Images:
    """The training or the test images of mnist, fashion, cifar10 or svhn.

    Args:
        name: Name of the set.
        part: `"train"` or `"test"`.
        data: The folder that holds the sets; else FSGMCMC_DATA, else the user's cache.

        train = load_images("mnist", "train", data="downloads").some(10_000, seed=0)
    """
    if name not in SETS:
        raise ValueError(f"unknown image set {name!r}; choose from {', '.join(SETS)}")
    if part not in PARTS:
        raise ValueError(f"part must be 'train' or 'test', got {part!r}")
    folder, read = SETS[name]
    base = root_of(data) / folder
    x, y, files = read(base, part)
    if len(x) != len(y):
        raise ValueError(f"{base} has {len(x)} images and {len(y)} labels: one file is truncated, copy it again")
    if x.size == 0:
        raise ValueError(f"{base} has no {part} images: copy the set again")
    try:
        labels = _checks.labels(y, CLASSES)
    except ValueError as error:
        raise ValueError(f"{', '.join(map(str, files))}: {error}; copy the set again") from None
    return Images(name, x, labels, tuple(path.name for path in files))


Arrays = tuple[np.ndarray, np.ndarray, list[Path]]


def _read_idx_pair(base: Path, part: str) -> Arrays:
    prefix = "train" if part == "train" else "t10k"
    files = [_found(base, f"{prefix}-{what}-ubyte") for what in ("images-idx3", "labels-idx1")]
    images, labels = (_read_idx(path, axes) for path, axes in zip(files, (3, 1), strict=True))
    return images[..., None], labels, files


def _read_idx(path: Path, axes: int) -> UInt8[np.ndarray, "..."]:
    """Format: two zero bytes, 8 for bytes, the number of axes, their lengths, the data."""
    content = _content(path)
    header = 4 + 4 * axes
    if len(content) < header or content[:4] != bytes([0, 0, 8, axes]):
        raise ValueError(f"{path} is not an idx file of bytes with {axes} axes: copy it again")
    shape = np.frombuffer(content, ">u4", axes, offset=4).astype(int)
    if len(content) != header + shape.prod():
        raise ValueError(f"{path} has {len(content) - header} bytes for shape {tuple(shape.tolist())}: copy it again")
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape)


def _read_cifar(base: Path, part: str) -> Arrays:
    names = ["test_batch"] if part == "test" else [f"data_batch_{k}" for k in range(1, 6)]
    files = [base / f"{name}.bin" for name in names if (base / f"{name}.bin").is_file()]
    if not files:
        raise DataNotFoundError(_missing(base / f"{names[0]}.bin"))
    records = []
    for path in files:
        content = _content(path)
        if not content or len(content) % CIFAR_RECORD:
            raise ValueError(f"{path} is not a sequence of records of {CIFAR_RECORD} bytes: copy it again")
        records.append(np.frombuffer(content, np.uint8).reshape(-1, CIFAR_RECORD))
    table = np.concatenate(records)
    return np.moveaxis(table[:, 1:].reshape(-1, 3, 32, 32), 1, -1), table[:, 0], files


def _read_svhn(base: Path, part: str) -> Arrays:
    """X (height, width, channels, n) and y (n, 1) of a MATLAB file; the digit 0 is stored as 10."""
    from scipy.io import loadmat

    path = base / f"{part}_32x32.mat"
    if not path.is_file():
        raise DataNotFoundError(_missing(path))
    try:
        arrays = loadmat(path)
        x, y = np.moveaxis(arrays["X"], -1, 0), arrays["y"].ravel()
    except Exception as error:  # a damaged file raises many types
        raise ValueError(f"{path} is not an SVHN file ({error}): copy it again") from None
    if x.shape[1:] != (32, 32, 3) or x.dtype != np.uint8:
        raise ValueError(f"{path} holds images of shape {x.shape[1:]} and type {x.dtype}, not (32, 32, 3) of bytes")
    return x, np.where(y == 10, 0, y), [path]


SETS: dict[str, tuple[str, Callable[[Path, str], Arrays]]] = {
    "mnist": ("mnist", _read_idx_pair),
    "fashion": ("fashion-mnist", _read_idx_pair),
    "cifar10": ("cifar-10-batches-bin", _read_cifar),
    "svhn": ("svhn", _read_svhn),
}
"""Name, folder and reader of each set."""


def _found(base: Path, name: str) -> Path:
    """The file, with or without gzip."""
    for path in (base / f"{name}.gz", base / name):
        if path.is_file():
            return path
    raise DataNotFoundError(_missing(base / f"{name}.gz"))


def _missing(path: Path) -> str:
    return (
        f"{path} is missing: download the set, keep its file names, and give the folder that holds "
        f"{path.parent.name} with --data DIR or FSGMCMC_DATA"
    )


def _content(path: Path) -> bytes:
    """The content of a file, decompressed; a file that differs from the public one gives a warning."""
    content = path.read_bytes()
    known = MD5.get(f"{path.parent.name}/{path.name}")
    if known is not None and hashlib.md5(content, usedforsecurity=False).hexdigest() != known:
        warnings.warn(f"{path} is not the public file: its MD5 differs", stacklevel=4)
    if path.suffix != ".gz":
        return content
    try:
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{path} cannot be decompressed ({error}): copy it again") from None

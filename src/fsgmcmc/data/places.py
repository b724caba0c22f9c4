"""Where data are looked for, and what is said when they are not there."""

import os
from pathlib import Path

import pooch


class DataNotFoundError(FileNotFoundError):
    """A data set, or a file of one, is not where it was looked for."""


class DownloadError(OSError):
    """A file could not be downloaded, or is not what it should be."""


def root_of(data: str | Path | None = None) -> Path:
    """The folder of all data: `data`, else FSGMCMC_DATA, else the user's cache."""
    given = data or os.environ.get("FSGMCMC_DATA") or pooch.os_cache("fsgmcmc")
    return Path(os.path.abspath(Path(given).expanduser()))

"""The data folder, and the errors of missing data."""

import os
from pathlib import Path


class DataNotFoundError(FileNotFoundError):
    """A data set, or one of its files, is missing."""


class DownloadError(OSError):
    """A file could not be downloaded, or has the wrong content."""


def root_of(data: str | Path | None = None) -> Path:
    """The folder of all data: `data`, else FSGMCMC_DATA, else the user's cache."""
    given = data or os.environ.get("FSGMCMC_DATA")
    if not given:
        import pooch

        given = pooch.os_cache("fsgmcmc")
    return Path(os.path.abspath(Path(given).expanduser()))

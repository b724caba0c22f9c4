"""The UCI Mushroom set: 22 categorical attributes, edible or poisonous.

The layout is that of UCI: `mushroom/agaricus-lepiota.data`, one line per mushroom with `e` or `p` and 22 letters,
`?` for a missing value.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float32

from fsgmcmc.data.places import DataNotFoundError, root_of

ATTRIBUTES = 22


@dataclass(frozen=True, eq=False)
class Mushrooms:
    """One-hot columns (missing is its own category), their names as (attribute, letter), and the poisonous labels."""

    x: Float32[np.ndarray, "mushrooms columns"]
    columns: tuple[tuple[int, str], ...]
    poisonous: Bool[np.ndarray, " mushrooms"]


def load_mushrooms(data: str | Path | None = None) -> Mushrooms:
    """The set in the folder `mushroom` of `data`, else of FSGMCMC_DATA, else of the user's cache."""
    path = root_of(data) / "mushroom" / "agaricus-lepiota.data"
    if not path.is_file():
        raise DataNotFoundError(
            f"{path} is missing: download the UCI Mushroom set, keep its file name, and give the folder that holds "
            "mushroom with --data DIR or FSGMCMC_DATA"
        )
    try:
        rows = [line.strip().split(",") for line in path.read_text(encoding="ascii").splitlines() if line.strip()]
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not a text file: copy it again") from None
    for number, row in enumerate(rows, start=1):
        if len(row) != 1 + ATTRIBUTES or row[0] not in ("e", "p"):
            raise ValueError(f"line {number} of {path} is not e or p and {ATTRIBUTES} letters: copy it again")
    if not rows:
        raise ValueError(f"{path} is empty: copy it again")
    table = np.array(rows)
    columns = [(attribute, letter) for attribute in range(ATTRIBUTES) for letter in np.unique(table[:, 1 + attribute])]
    x = np.stack([table[:, 1 + attribute] == letter for attribute, letter in columns], axis=1)
    return Mushrooms(
        x.astype(np.float32), tuple((attribute, str(letter)) for attribute, letter in columns), table[:, 0] == "p"
    )

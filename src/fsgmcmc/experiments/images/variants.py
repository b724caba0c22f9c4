"""Images: the rows of the tables, which are the methods of the registry and variants of its samplers.

A variant is a sampler with a further prior at context images (`fsgmcmc.data.context_images`): `context` is the Gaussian
process of the logits, in function space, and `exposure` is `OutlierExposure`, in parameter space. A name with
`+process` is the same run, whose logits become those of the conditioned Gaussian process beyond the training images.
"""

from typing import NamedTuple

from fsgmcmc.methods import METHODS, SAMPLERS, VARIATIONAL, Method, title_of

PROCESS = "+process"


class Variant(NamedTuple):
    """A method of the registry, and what is enforced at context images."""

    method: Method
    addition: str


VARIANTS = {
    f"{name}-{addition}": Variant(method, addition)
    for name, method in SAMPLERS.items()
    for addition in ("context" if method.is_functional else "exposure",)
}
NAMES = (*SAMPLERS, *VARIANTS, METHODS["gp"].name, *VARIATIONAL)
"""All rows that are runs of their own, in the order of the tables."""
ROWS = tuple(row for name in NAMES for row in (name, name + PROCESS))


def title(name: str) -> str:
    """The title of a row.

    Example:
        >>> title("fsghmc-context+process")
        'fSGHMC + context + process'
    """
    run = name.removesuffix(PROCESS)
    parts = [VARIANTS[run].method.title, VARIANTS[run].addition] if run in VARIANTS else [title_of(run)]
    return " + ".join([*parts, "process"] if run != name else parts)


def color(name: str) -> str:
    """The color of a row in figures, that of its method."""
    run = name.removesuffix(PROCESS)
    return (VARIANTS[run].method if run in VARIANTS else METHODS[run]).color

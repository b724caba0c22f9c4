"""The four samplers of the paper, as every experiment has them."""

from collections.abc import Callable
from typing import NamedTuple

from fsgmcmc.samplers import fsghmc, fsgld, sghmc, sgld
from fsgmcmc.samplers.base import Sampler


class Kind(NamedTuple):
    """How a sampler is built, whether its prior is one on functions, and whether it has a momentum."""

    build: Callable[..., Sampler]
    functional: bool
    hamiltonian: bool


SAMPLERS = {
    "sgld": Kind(sgld, functional=False, hamiltonian=False),
    "fsgld": Kind(fsgld, functional=True, hamiltonian=False),
    "sghmc": Kind(sghmc, functional=False, hamiltonian=True),
    "fsghmc": Kind(fsghmc, functional=True, hamiltonian=True),
}

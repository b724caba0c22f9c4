"""Samplers: they move w given the gradient of a potential, and know nothing of networks or priors."""

from fsgmcmc.samplers.hamiltonian import fsghmc, hamiltonian, sghmc
from fsgmcmc.samplers.langevin import fsgld, langevin, sgld
from fsgmcmc.samplers.metropolis import hmc, mala, nuts
from fsgmcmc.samplers.schedules import constant, cyclical, cyclical_temperature, polynomial, step_decay

__all__ = [
    "constant",
    "cyclical",
    "cyclical_temperature",
    "fsghmc",
    "fsgld",
    "hamiltonian",
    "hmc",
    "langevin",
    "mala",
    "nuts",
    "polynomial",
    "sghmc",
    "sgld",
    "step_decay",
]

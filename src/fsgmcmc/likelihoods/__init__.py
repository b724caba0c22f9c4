"""Likelihoods p(y | f): `base` has the contract, every other file one likelihood."""

from fsgmcmc.likelihoods.base import LIKELIHOODS as LIKELIHOODS, Likelihood as Likelihood, register as register
from fsgmcmc.likelihoods.categorical import Categorical as Categorical
from fsgmcmc.likelihoods.dirichlet import Dirichlet as Dirichlet
from fsgmcmc.likelihoods.gaussian import Gaussian as Gaussian
from fsgmcmc.likelihoods.student_t import StudentT as StudentT

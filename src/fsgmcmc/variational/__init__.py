"""Variational inference for the same posteriors: Bayes by Backprop, FBNN and IFBNN."""

from fsgmcmc.variational.base import Approximation
from fsgmcmc.variational.bayes_by_backprop import ScaleMixture, bbb
from fsgmcmc.variational.fbnn import fbnn
from fsgmcmc.variational.ifbnn import ifbnn
from fsgmcmc.variational.stein import stein_score
from fsgmcmc.variational.training import fit
from fsgmcmc.variational.wasserstein import wasserstein

__all__ = ["Approximation", "ScaleMixture", "bbb", "fbnn", "fit", "ifbnn", "stein_score", "wasserstein"]

"""Posteriors: `target` has the contract of what can be sampled, `data` the rows, `potential` the posterior itself."""

from fsgmcmc.posterior.data import Batch as Batch, Data as Data, InMemory as InMemory, Streamed as Streamed
from fsgmcmc.posterior.potential import Position as Position, Posterior as Posterior
from fsgmcmc.posterior.target import Energy as Energy, Target as Target

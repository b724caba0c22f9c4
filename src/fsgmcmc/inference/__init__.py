"""Running chains: `sample` and its warm-up; the private modules are the parts of the loop."""

from fsgmcmc.inference.sample import sample as sample
from fsgmcmc.inference.warm_up import WarmUp as WarmUp, warm_up as warm_up

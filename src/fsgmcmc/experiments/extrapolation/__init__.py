"""One-dimensional extrapolation, the first experiment of the paper and what `fsgmcmc demo` runs."""

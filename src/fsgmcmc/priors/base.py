"""What priors have in common: they can be added, which multiplies their densities."""

import equinox as eqx


class Prior(eqx.Module):
    """A factor of the prior density; `a + b` is the prior whose energy is the sum of both."""

    def __add__(self, other: "Prior") -> "Sum":
        if not isinstance(other, Prior):
            return NotImplemented
        return Sum(parts(self) + parts(other))


class Sum(Prior):
    """Several priors at once."""

    terms: tuple[Prior, ...]


def parts(prior: Prior) -> tuple[Prior, ...]:
    """The summands of a prior, itself when it is a single one."""
    return prior.terms if isinstance(prior, Sum) else (prior,)

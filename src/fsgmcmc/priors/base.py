"""What priors have in common: they can be added, which multiplies their densities."""

import equinox as eqx


class Prior(eqx.Module):
    """A factor of the prior density; `a + b` is the prior whose energy is the sum of both."""

    def __add__(self, other: "Prior") -> "Sum":
        # An error at once: NotImplemented would let a tinygp kernel on the right make a kernel of both.
        if not isinstance(other, Prior):
            raise TypeError(f"a prior can be added to a prior, not to {type(other).__name__}")
        return Sum(parts(self) + parts(other))


class Sum(Prior):
    """Several priors at once."""

    terms: tuple[Prior, ...]


def parts(prior: Prior) -> tuple[Prior, ...]:
    """The summands of a prior, itself when it is a single one."""
    return prior.terms if isinstance(prior, Sum) else (prior,)

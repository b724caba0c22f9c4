"""The base class of priors. Priors can be added, which multiplies their densities."""

import equinox as eqx


class Prior(eqx.Module):
    """A factor of the prior density; `a + b` is the prior whose energy is the sum of both."""

    def __add__(self, other: "Prior") -> "Sum":
        # Not NotImplemented: a tinygp kernel on the right would then build a kernel from both.
        if not isinstance(other, Prior):
            raise TypeError(f"a prior can be added to a prior, not to {type(other).__name__}")
        return Sum(parts(self) + parts(other))


class Sum(Prior):
    """A sum of priors."""

    terms: tuple[Prior, ...]


def parts(prior: Prior) -> tuple[Prior, ...]:
    """The summands of a prior; the prior itself if it is not a sum."""
    return prior.terms if isinstance(prior, Sum) else (prior,)

"""Errors of runs that diverged; `DivergenceError` catches all of them."""


class DivergenceError(RuntimeError):
    """A chain or a fit turned non-finite or left the region where the posterior has its mass."""


class DivergedChainError(DivergenceError):
    """A chain of `sample` diverged.

    Attributes:
        chain: Its index.
        step: The step by which it was found.
        step_size: The step size there.
        summary: What happened, without the remedy.
    """

    def __init__(self, chain: int, step: int, step_size: float) -> None:
        self.chain, self.step, self.step_size = chain, step, step_size
        self.summary = f"chain {chain} diverged by step {step} with step size {step_size:.3g}"
        super().__init__(f"{self.summary}; try step_size={step_size / 2:.2g}, or leave it out to have it measured")

    def __reduce__(self) -> tuple:
        return type(self), (self.chain, self.step, self.step_size)


class DivergedWarmUpError(DivergenceError):
    """A chain diverged in the warm-up."""


class DivergedFitError(DivergenceError):
    """The loss or a parameter of a variational method turned non-finite.

    Attributes:
        step: The step by which it was found.
        learning_rate: The learning rate there.
    """

    def __init__(self, step: int, learning_rate: float, initial_rate: float) -> None:
        self.step, self.learning_rate, self.initial_rate = step, learning_rate, initial_rate
        super().__init__(
            f"the fit turned non-finite by step {step} with learning rate {learning_rate:.3g}; "
            f"try learning_rate={initial_rate / 3:.2g}, or a larger nugget if the prior is functional"
        )

    def __reduce__(self) -> tuple:
        return type(self), (self.step, self.learning_rate, self.initial_rate)

"""Standardisation of inputs and targets, fitted on the training part only."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float32, Float64

from fsgmcmc import _checks


@dataclass(frozen=True, eq=False)
class Standardiser:
    """Scale to zero mean and unit (population) variance in the training part; constant columns are only centred.

    >>> scale = Standardiser.fit(x=[[1.0, 7.0], [3.0, 7.0]], y=[10.0, 30.0])
    >>> scale.x([[5.0, 8.0]]).tolist(), scale.y([20.0]).tolist(), scale.y_std
    ([[3.0, 1.0]], [0.0], 10.0)
    """

    x_mean: Float64[np.ndarray, " features"]
    x_std: Float64[np.ndarray, " features"]
    y_mean: float = 0.0
    y_std: float = 1.0

    @classmethod
    def fit(cls, x: Any, y: Any) -> "Standardiser":
        """Means and standard deviations of the training inputs, one row each, and targets."""
        inputs = _checks.matrix(x, "x", np.float64)
        targets = _checks.finite(y, "y", np.float64)
        _checks.same_length(inputs, targets)
        mean, std = moments(np.column_stack([inputs, targets]))
        return cls(mean[:-1], std[:-1], float(mean[-1]), float(std[-1]))

    def x(self, values: Any) -> Float32[np.ndarray, "rows features"]:
        """Inputs in training standard deviations from the training mean, as float32."""
        inputs = _checks.matrix(values, "x", np.float64)
        if inputs.shape[1] != len(self.x_mean):
            raise ValueError(f"x has {inputs.shape[1]} columns, the training part had {len(self.x_mean)}")
        with np.errstate(over="ignore"):
            standard = ((inputs - self.x_mean) / self.x_std).astype(np.float32)
        if (wrong := np.argwhere(~np.isfinite(standard))).size:
            row, column = wrong[0]
            raise ValueError(
                f"{inputs[row, column]:g} in row {row} and feature {column} of x is too far from the training data for "
                "float32"
            )
        return standard

    def y(self, values: Any) -> Float64[np.ndarray, "..."]:
        """Targets in training standard deviations from the training mean, as float64."""
        return (_checks.finite(values, "y", np.float64) - self.y_mean) / self.y_std

    def original_y(self, values: np.ndarray) -> Float64[np.ndarray, "..."]:
        """Standardised targets in the original units."""
        return self.y_mean + self.y_std * values.astype(np.float64)


def moments(values: np.ndarray, weights: np.ndarray | None = None) -> tuple[Any, Any]:
    """Mean and standard deviation of each column, with optional weights; 1 for the standard deviation of a constant."""
    if weights is None:
        mean, std = values.mean(axis=0), values.std(axis=0)
    else:
        mean = np.average(values, axis=0, weights=weights)
        std = np.sqrt(np.average(np.square(values - mean), axis=0, weights=weights))
    # The standard deviation of equal numbers may be a rounding error instead of zero.
    return mean, np.where(np.ptp(values, axis=0) > 0, std, 1.0)

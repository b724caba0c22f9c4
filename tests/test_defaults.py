"""What the estimators and the experiments share: warm-up, friction and nugget."""

import numpy as np
import pytest

from fsgmcmc import MLP, Gaussian, GaussianProcess, defaults, fsghmc, function_space, rbf
from fsgmcmc.methods import SAMPLERS


@pytest.mark.parametrize("burn_in", [0, 1, 2, 100, 3000])
def test_the_warm_up_holds_the_whole_burn_in(burn_in):
    warm_up = defaults.warm_up_for(burn_in, adam_steps=7)
    assert warm_up.adam_steps == 7
    assert burn_in <= warm_up.blocks * warm_up.block_steps < burn_in + defaults.BLOCKS


def friction(batch_size, step_size):
    x, prior = np.linspace(-1, 1, 20), GaussianProcess(rbf())
    posterior = function_space(MLP((3,)), x, x, prior=prior, likelihood=Gaussian(0.1), batch_size=batch_size)
    return SAMPLERS["fsghmc"].sampler(posterior, step_size).friction_per_step


def test_momentum_is_kept_longer_without_gradient_noise_and_as_usual_with_a_step_that_is_given():
    assert friction(None, None) < friction(15, None) < friction(None, 1e-3) == fsghmc().friction_per_step


def test_the_nugget_is_a_part_of_the_noise_variance_whatever_the_scale_of_the_prior():
    x = np.linspace(-1, 1, 20)[:, None]
    for variance in (0.5, 20.0):
        nugget = defaults.nugget_for(GaussianProcess(rbf(variance=variance)), x, noise=0.3, of_noise=2.0)
        assert nugget * variance == pytest.approx(2 * 0.3**2, rel=1e-3)

"""The prior is chosen by evidence on training data, and posteriors by held-out density."""

from functools import partial

import numpy as np
import pytest

from fsgmcmc import GaussianProcess, kernel_by_name, matern32, pretrain, rbf
from fsgmcmc.predictions import GaussianPrediction
from fsgmcmc.priors.pretraining import Pretrained
from fsgmcmc.priors.selection import GRAMMAR, choose_by_density, select_kernel

X = np.random.default_rng(0).uniform(-2, 2, (120, 2))


def drawn_from(kernel, noise=0.1, seed=1):
    import jax

    f = np.asarray(GaussianProcess(kernel).sample(jax.random.key(seed), X))[0, :, 0]
    return f + noise * np.random.default_rng(seed).standard_normal(len(X))


@pytest.mark.parametrize(("kernel", "name"), [(rbf(1.0), "rbf"), (matern32(1.0), "matern32")])
def test_evidence_finds_the_smoothness_that_made_the_data(kernel, name):
    selection = select_kernel(X, drawn_from(kernel), grammar=("rbf", "matern32", "linear"))
    assert selection.kernel == name
    evidence = [row.evidence for row in selection.tried]
    assert evidence == sorted(evidence, reverse=True)
    assert {row.kernel for row in selection.tried} == {"rbf", "matern32", "linear"}
    assert selection.fit.noise == pytest.approx(0.1, rel=0.5)


@pytest.mark.slow
def test_a_sum_wins_where_the_data_are_a_sum():
    y = 3 * X[:, 0] + 0.5 * np.sin(6 * X[:, 1]) + 0.05 * np.random.default_rng(3).standard_normal(len(X))
    selection = select_kernel(X, y, grammar=("linear", "rbf", "rbf + linear"))
    assert selection.kernel == "rbf + linear"
    assert "rbf + linear" in str(selection)


@pytest.mark.parametrize(("lengthscale", "chosen"), [(1e-3, "matern32"), (1.0, "rbf")])
def test_a_kernel_that_is_noise_is_set_aside_but_not_one_that_fits_clean_data(lengthscale, chosen):
    """No noise is left in both cases; only the rough kernel is passed over for the next one."""
    from fsgmcmc.priors import selection as module

    y = np.random.default_rng(5).standard_normal(len(X))

    def found(evidence, noise, lengthscale=1.0):
        return Pretrained(GaussianProcess(rbf(lengthscale)), noise, evidence, np.zeros(1))

    fits = {"rbf": found(1.0, 1e-4, lengthscale), "matern32": found(0.5, 0.9), "linear": found(0.1, 1.0)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "kernel_by_name", lambda name, features: name)
        patch.setattr(module, "GaussianProcess", lambda kernel: kernel)
        patch.setattr(module, "pretrain", lambda process, *_, **__: fits[process])
        assert select_kernel(X, y, grammar=("linear", "matern32", "rbf")).kernel == chosen


def test_the_best_of_few_rows_are_compared_on_more():
    """A line is best on 200 rows, where the bends look like noise; more rows tell."""
    from fsgmcmc.priors import selection as module

    x = np.random.default_rng(0).uniform(-2, 2, (500, 2))
    evidence = {("linear", 200): 2.0, ("rbf", 200): 1.0, ("linear", 400): 2.0, ("rbf", 400): 9.0}

    def fit(process, *_, max_points, **__):
        return Pretrained(GaussianProcess(rbf()), 0.5, evidence.get((process, max_points), 0.0), np.zeros(1))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "kernel_by_name", lambda name, features: name)
        patch.setattr(module, "GaussianProcess", lambda kernel: kernel)
        patch.setattr(module, "pretrain", fit)
        assert select_kernel(x, x[:, 0], grammar=("linear", "rbf", "matern32")).kernel == "rbf"
        assert select_kernel(x[:200], x[:200, 0], grammar=("linear", "rbf", "matern32")).kernel == "linear"


def test_every_name_of_the_grammar_is_a_kernel():
    assert len(set(GRAMMAR)) == 10
    for name in GRAMMAR:
        kernel_by_name(name, 3)
    with pytest.raises(ValueError, match="grammar is empty"):
        select_kernel(X, X[:, 0], grammar=())


def test_held_out_density_chooses_the_better_posterior():
    class Finished:
        def __init__(self, centre):
            self.centre = centre

        def predict(self, x):
            draws = np.full((3, len(x), 1), self.centre)
            return GaussianPrediction(draws, np.ones_like(draws))

    name, density = choose_by_density({"far": Finished(2.0), "near": Finished(0.5)}, X, np.zeros(len(X)))
    assert name == "near"
    assert density["near"] == pytest.approx(-0.5 * np.log(2 * np.pi) - 0.125)
    assert density["near"] - density["far"] == pytest.approx(2 - 0.125)
    with pytest.raises(ValueError, match="nothing to choose"):
        choose_by_density({}, X, X[:, 0])


def test_a_word_or_a_kernel_can_stand_for_a_process(monkeypatch):
    from fsgmcmc.priors import selection as module

    y = drawn_from(rbf(1.0))
    assert pretrain("rbf", X, y, 5).evidence == pretrain(kernel_by_name("rbf", 2), X, y, 5).evidence
    chosen = select_kernel(X, y, grammar=("rbf", "linear"), starts=4, seed=7)
    monkeypatch.setattr(module, "select_kernel", partial(select_kernel, grammar=("rbf", "linear")))
    assert pretrain("auto", X, y, seed=7).evidence == chosen.fit.evidence
    with pytest.raises(ValueError, match="select_kernel"):
        pretrain("auto", X, y, noise=0.1)
    with pytest.raises(ValueError, match="unknown kernel"):
        pretrain("smooth", X, y)

"""The loop: exact resume, independent chains, guards."""

import os
import subprocess
import sys
import textwrap
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fsgmcmc import (
    MLP,
    DivergenceError,
    Energy,
    Gaussian,
    GaussianProcess,
    WarmUp,
    cyclical_temperature,
    fsghmc,
    fsgld,
    function_space,
    langevin,
    measurement,
    rbf,
    sample,
    sgld,
)

X = np.linspace(-1, 1, 12)
SHORT = {"thinning": 2, "burn_in": 10, "warm_up": WarmUp(adam_steps=5, blocks=1, block_steps=3)}


def posterior():
    pool = np.linspace(-1.5, 1.5, 20)
    return function_space(
        MLP((8,)),
        X,
        np.sin(3 * X),
        prior=GaussianProcess(rbf(0.5)),
        likelihood=Gaussian(0.2),
        measurement=measurement.subset(pool, 10),
        batch_size=5,
    )


def run_in_new_process(code: str, *, devices: int = 1) -> str:
    """Standard output of a fresh interpreter that can import this module as `t`."""
    environment = os.environ | {
        "XLA_FLAGS": f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count={devices}",
        "PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), *sys.path]),
    }
    script = "import test_sample as t\n" + textwrap.dedent(code)
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("chains", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_half_a_run_a_new_process_and_the_other_half_are_the_whole_run(chains, tmp_path):
    whole = sample(7, posterior(), fsghmc(), draws=20, chains=chains, **SHORT)
    path = tmp_path / "run.ckpt"
    sample(7, posterior(), fsghmc(), draws=10, chains=chains, checkpoint=path, **SHORT)
    run_in_new_process(
        f"""
        samples = t.sample(7, t.posterior(), t.fsghmc(), draws=20, chains={chains}, checkpoint={str(path)!r}, **t.SHORT)
        samples.save({str(tmp_path / "resumed.npz")!r})
        """
    )
    with np.load(tmp_path / "resumed.npz") as resumed:
        np.testing.assert_array_equal(resumed["positions"], whole.positions)
        np.testing.assert_array_equal(resumed["energy"], whole.energy)


def test_an_interrupted_run_loses_nothing(tmp_path, monkeypatch):
    from fsgmcmc.inference import _loop

    whole = sample(7, posterior(), fsgld(), draws=20, chains=2, **SHORT)
    path, calls, run_steps = tmp_path / "run.ckpt", [], _loop.run_steps

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return run_steps(*arguments)

    monkeypatch.setattr("fsgmcmc.inference._chunking.FIRST_CALL_STEPS", 7)
    monkeypatch.setattr("fsgmcmc.inference._chunking.SECONDS_PER_CALL", 1e9)
    monkeypatch.setattr(_loop, "run_steps", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sample(7, posterior(), fsgld(), draws=20, chains=2, checkpoint=path, **SHORT)
    monkeypatch.undo()
    resumed = sample(7, posterior(), fsgld(), draws=20, chains=2, checkpoint=path, **SHORT)
    np.testing.assert_array_equal(resumed.positions, whole.positions)


def test_an_interrupted_warm_up_resumes(tmp_path, monkeypatch):
    from fsgmcmc.inference import _adam

    options = {"draws": 2, "chains": 2, **SHORT, "warm_up": WarmUp(adam_steps=40, blocks=0)}
    whole = sample(7, posterior(), fsgld(), **options)
    path, taken, across_cores = tmp_path / "run.ckpt", [], _adam.across_cores

    def watched(program, per_chain, target, rate, total, count):
        if sum(taken) == 18 and not path.exists():
            raise KeyboardInterrupt
        taken.append(int(count))
        return across_cores(program, per_chain, target, rate, total, count)

    monkeypatch.setattr("fsgmcmc.inference._chunking.FIRST_ADAM_STEPS", 2)
    monkeypatch.setattr("fsgmcmc.inference._chunking.SECONDS_PER_CALL", 1e9)
    monkeypatch.setattr(_adam, "across_cores", watched)
    with pytest.raises(KeyboardInterrupt):
        sample(7, posterior(), fsgld(), checkpoint=path, **options)
    assert taken == [0, 2, 16]
    taken.clear()
    resumed = sample(7, posterior(), fsgld(), checkpoint=path, **options)
    assert sum(taken) == 40 - 18
    np.testing.assert_array_equal(resumed.positions, whole.positions)


def test_how_steps_are_cut_into_calls_changes_nothing(monkeypatch):
    whole = sample(3, posterior(), fsgld(), draws=15, chains=2, **SHORT)
    monkeypatch.setattr("fsgmcmc.inference._chunking.FIRST_CALL_STEPS", 3)
    monkeypatch.setattr("fsgmcmc.inference._chunking.FIRST_ADAM_STEPS", 3)
    monkeypatch.setattr("fsgmcmc.inference._chunking.SECONDS_PER_CALL", 0.0)
    np.testing.assert_array_equal(
        sample(3, posterior(), fsgld(), draws=15, chains=2, **SHORT).positions, whole.positions
    )


def test_chains_do_not_depend_on_how_many_run_together():
    """Up to rounding: one matrix product over several chains may sum in another order than over one."""
    options = {"draws": 3, "thinning": 2, "burn_in": 4, "warm_up": None}
    three = sample(5, posterior(), fsgld(1e-5), chains=3, **options)
    one = sample(5, posterior(), fsgld(1e-5), chains=1, **options)
    np.testing.assert_allclose(one.positions[0], three.positions[0], rtol=1e-4, atol=1e-5)
    assert np.abs(three.positions[0] - three.positions[1]).max() > 0.1


def test_chains_spread_over_devices_give_the_same_draws():
    code = """
        import numpy as np
        warm_up = t.WarmUp(adam_steps=3, blocks=1, block_steps=3)
        options = {"draws": 3, "thinning": 2, "burn_in": 4, "warm_up": warm_up, "chains": 4}
        samples = t.sample(5, t.posterior(), t.fsgld(1e-5), **options)
        print(len(t.jax.devices()), *np.round(samples.positions[:, -1, :5], 3).ravel())
    """
    alone, spread = run_in_new_process(code).split(), run_in_new_process(code, devices=4).split()
    assert (alone[0], spread[0]) == ("1", "4")
    np.testing.assert_allclose(np.array(alone[1:], float), np.array(spread[1:], float), atol=2e-3)


def test_collect_keeps_a_function_of_the_parameters():
    target = posterior()
    options = {"draws": 4, "chains": 2, **SHORT}
    weights = sample(1, target, fsgld(), **options)
    grid = jnp.linspace(-1, 1, 5)[:, None]
    kept = sample(1, target, fsgld(), collect=lambda p: {"f": target.network.apply(p.network, grid)}, **options)
    np.testing.assert_allclose(kept.collected["f"], weights.functions(grid), rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="kept only what"):
        kept.predict(grid)


def test_a_bare_target_and_given_starts():
    target = Energy(lambda w: 0.5 * jnp.sum((w - 3.0) ** 2), jnp.zeros(2))
    samples = sample(0, target, langevin(1e-9), draws=1, thinning=1, burn_in=0, chains=2, init=[1.0, 2.0], warm_up=None)
    np.testing.assert_allclose(samples.positions[:, 0], [[1.0, 2.0]] * 2, atol=1e-3)
    with pytest.raises(ValueError, match=r"init must have shape \(2,\) or \(2, 2\)"):
        sample(0, target, langevin(1e-9), chains=2, init=[1.0])
    with pytest.raises(ValueError, match="no network"):
        samples.predict(np.zeros((1, 1)))


def test_a_diverging_chain_is_reported_with_its_remedy():
    with pytest.raises(DivergenceError, match=r"chain 0 diverged by step \d+ with step size 10; try") as caught:
        sample(0, posterior(), fsgld(10.0), draws=5, chains=2, back_off=0, **SHORT)
    assert caught.value.step_size == 10
    assert 0 < caught.value.step <= 100


def test_a_chain_that_runs_away_is_diverged_before_it_is_non_finite(monkeypatch):
    options = {"draws": 5, "chains": 2, "back_off": 0, **SHORT}
    with pytest.raises(DivergenceError, match="diverged by step"):
        sample(0, posterior(), fsgld(0.003), **options)
    jax.clear_caches()  # the rule is compiled
    monkeypatch.setattr("fsgmcmc.posterior.potential.LARGEST_RISE", np.inf)
    assert (sample(0, posterior(), fsgld(0.003), **options).energy > 1e15).all()
    jax.clear_caches()


def test_the_remedy_can_be_applied():
    target = Energy(lambda w: 0.5 * 100.0 * jnp.sum(w * w), jnp.ones(3))
    with pytest.warns(UserWarning, match="starting over with half the step"):
        samples = sample(
            0, target, langevin(0.03), draws=5, thinning=50, burn_in=500, chains=2, warm_up=None, back_off=2
        )
    assert np.isfinite(samples.positions).all()
    assert samples.info["step_size"] == pytest.approx(0.015)


def test_a_run_that_goes_on_has_no_more_remedies_than_the_whole_one(tmp_path):
    target = Energy(lambda w: 0.5 * 100.0 * jnp.sum(w * w), jnp.ones(3))
    options = {"draws": 5, "thinning": 50, "burn_in": 500, "chains": 2, "warm_up": None, "back_off": 1}
    for _ in range(2):
        with pytest.raises(DivergenceError) as caught, warnings.catch_warnings(action="ignore"):
            sample(0, target, langevin(0.1), checkpoint=tmp_path / "run.ckpt", **options)
        assert caught.value.step_size == pytest.approx(0.05)


def test_checkpoints_of_other_runs_and_broken_files_are_refused(tmp_path):
    path = tmp_path / "run.ckpt"
    options = {"draws": 3, "chains": 1, "checkpoint": path, **SHORT}
    first = sample(1, posterior(), fsgld(), **options)
    np.testing.assert_array_equal(sample(1, posterior(), fsgld(), **options).positions, first.positions)
    with pytest.raises(ValueError, match="checkpoint of another run"):
        sample(2, posterior(), fsgld(), **options)
    with pytest.raises(ValueError, match="checkpoint of another run"):
        sample(1, posterior(), fsgld(1e-7), **options)
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(ValueError, match="truncated or altered"):
        sample(1, posterior(), fsgld(), **options)


def test_a_full_disk_gives_a_warning_and_sampling_continues(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("fsgmcmc._storage.np.savez", lambda *_, **__: full())
    with pytest.warns(UserWarning, match="No space left on device.*the run continues"):
        samples = sample(1, posterior(), fsgld(), draws=3, chains=1, checkpoint=tmp_path / "run.ckpt", **SHORT)
    assert samples.draws == 3
    assert list(tmp_path.iterdir()) == []


def test_one_program_serves_posteriors_of_the_same_shape(compiled):
    """Other data, another key and another step must not compile again."""

    def build(shift):
        prior = GaussianProcess(rbf(0.5 + shift))
        return function_space(MLP((4,)), X, np.cos(X) + shift, prior=prior, likelihood=Gaussian(0.2 + shift))

    options = {"draws": 2, "thinning": 1, "burn_in": 2, "chains": 1, "warm_up": None}
    sample(0, build(0.0), fsgld(1e-5), **options)
    assert [name for name in compiled if "run_steps" in name], "compilations are not seen"
    compiled.clear()
    sample(1, build(0.1), fsgld(2e-5), **options)
    assert not [name for name in compiled if "run_steps" in name], compiled


def test_sgld_is_refused_on_a_functional_posterior():
    with pytest.raises(ValueError, match="use fsgld or fsghmc"):
        sample(0, posterior(), sgld(1e-5))


@pytest.mark.parametrize(
    "change",
    [
        {"network": MLP((8,), "relu")},
        {"batch_size": None},
        {"measurement": measurement.box(-1.0, 1.0, 10)},
        {"likelihood": Gaussian(0.2, sampled=True, spread=1.0)},
    ],
    ids=["activation", "batch", "measurement", "likelihood"],
)
def test_a_checkpoint_knows_the_structure_of_its_run(change, tmp_path):
    """Runs whose arrays are the same may still differ: in the network, the batch, the points, the integrator."""
    options = {"draws": 1, "chains": 1, "checkpoint": tmp_path / "run.ckpt", **SHORT, "warm_up": None}
    settings = {
        "network": MLP((8,)),
        "measurement": measurement.box(-2.0, 2.0, 10),
        "likelihood": Gaussian(0.2, sampled=True),
        "batch_size": 5,
    }

    def build(network, **settings):
        return function_space(network, X, np.sin(X), prior=GaussianProcess(rbf(0.5)), **settings)

    sample(0, build(**settings), fsghmc(1e-4), **options)
    with pytest.raises(ValueError, match="checkpoint of another run"):
        sample(0, build(**(settings | change)), fsghmc(1e-4), **options)
    with pytest.raises(ValueError, match="checkpoint of another run"):
        sample(0, build(**settings), fsghmc(1e-4, integrator="obabo"), **options)
    with pytest.raises(ValueError, match="checkpoint of another run"):
        sample(0, build(**settings), fsghmc(1e-4), collect=lambda position: position.likelihood, **options)


def test_cycles_that_never_sample_are_refused():
    target = Energy(lambda w: 0.5 * jnp.sum(w * w), jnp.zeros(2))
    sampler = langevin(0.1, temperature=cyclical_temperature(length=100))
    with pytest.raises(ValueError, match="no draw falls into a sampling phase"):
        sample(0, target, sampler, thinning=100, burn_in=50, warm_up=None)


def test_a_checkpoint_that_cannot_be_written_is_told_before_sampling(tmp_path):
    with pytest.raises(ValueError, match="is a folder"):
        sample(0, posterior(), fsgld(1e-5), checkpoint=tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        sample(0, posterior(), fsgld(1e-5), checkpoint=tmp_path / "file" / "run.ckpt")

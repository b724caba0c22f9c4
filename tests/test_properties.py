"""Properties that hold for every input: shapes, vectors and parameters, plans of the loop, tables and their files."""

import string
from itertools import accumulate, islice

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from hypothesis import given, settings, strategies as st

from fsgmcmc import MLP, Gaussian, parameter_space
from fsgmcmc.defaults import padded_rows
from fsgmcmc.inference import _loop
from fsgmcmc.posterior import Batch, InMemory
from fsgmcmc.posterior._flatten import Flattener
from fsgmcmc.tabular.reading import read_table, write_table

# Compilation makes single examples slow; the number of examples bounds the time instead.
few = settings(max_examples=4, deadline=None)
many = settings(max_examples=100, deadline=None)

shapes = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 3)), min_size=1, max_size=4)


@many
@given(shapes)
def test_flatten_and_unflatten_are_inverse(shapes):
    rng = np.random.default_rng(0)
    tree = {str(index): rng.normal(size=shape).astype(np.float32) for index, shape in enumerate(shapes)}
    flattener = Flattener.of(tree)
    vector = flattener.flatten(tree)
    assert vector.shape == (flattener.size,)
    jax.tree.map(np.testing.assert_array_equal, flattener.unflatten(vector), tree)


@few
@given(
    rows=st.integers(1, 6),
    inputs=st.integers(1, 4),
    outputs=st.integers(1, 3),
    hidden=st.lists(st.integers(1, 4), max_size=2),
    skip=st.booleans(),
)
def test_a_posterior_of_any_shape_has_a_finite_gradient_of_its_size(rows, inputs, outputs, hidden, skip):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(rows, inputs)), rng.normal(size=(rows, outputs))
    posterior = parameter_space(MLP(tuple(hidden), skip=skip), x, y, likelihood=Gaussian(0.5))
    w = posterior.init(jax.random.key(0))
    energy, gradient = posterior.potential(jax.random.key(1), w)
    assert gradient.shape == w.shape == (posterior.size,)
    assert jnp.isfinite(energy)
    assert jnp.isfinite(gradient).all()


@few
@given(rows=st.integers(1, 20), more=st.integers(0, 10), weighted=st.booleans())
def test_padding_keeps_the_sum_of_weights_and_the_rows(rows, more, weighted):
    rng = np.random.default_rng(0)
    weights = jnp.asarray(rng.uniform(0.5, 2, rows), jnp.float32) if weighted else None
    data = InMemory(Batch(jnp.ones((rows, 2)), jnp.ones((rows, 1)), weights))
    padded = data.padded(rows + more).rows
    assert len(padded.x) == len(padded.y) == rows + more
    np.testing.assert_allclose(padded.weights.sum(), rows if weights is None else weights.sum(), rtol=1e-6)
    assert (padded.weights[rows:] == 0).all()


@many
@given(st.integers(1, 5000))
def test_padded_sizes_are_few_and_close(rows):
    padded = padded_rows(rows)
    assert rows <= padded <= max(1.25 * rows, 64)
    assert padded_rows(padded) == padded


@many
@given(
    burn_in=st.integers(0, 50), thinning=st.integers(1, 20), draws=st.integers(1, 30),
    most_steps=st.integers(1, 100), slots=st.integers(1, 8),
)  # fmt: skip
def test_however_a_run_is_cut_into_calls_the_same_steps_are_kept(burn_in, thinning, draws, most_steps, slots):
    wanted = [burn_in + thinning * (index + 1) for index in range(draws)]
    step, kept = 0, []
    while len(kept) < draws:
        plan = _loop.intervals(step, islice(iter(wanted), len(kept), draws), most_steps, slots)
        assert 0 < sum(length for length, _ in plan) <= most_steps
        assert len(plan) <= slots
        ends = [step + length for length in accumulate(length for length, _ in plan)]
        kept += [end for end, (_, keeps) in zip(ends, plan, strict=True) if keeps]
        step = ends[-1]
    assert kept == wanted


numbers = st.floats(-1e9, 1e9).map(lambda value: float(f"{value:.6g}"))
# Words that start with a letter and are no name of a missing value; separators, quotes and line breaks are inside.
words = st.text(string.ascii_letters + " ,;|\t\"'\nü", max_size=8).map(lambda text: f"w{text}w")


@many
@given(st.lists(st.tuples(numbers, words), min_size=2, max_size=8))
def test_a_table_that_is_written_is_read_back(tmp_path_factory, rows):
    frame = pd.DataFrame(rows, columns=["number", "word, quoted"])
    path = tmp_path_factory.mktemp("table") / "table.csv"
    write_table(frame, path)
    read = read_table(path)
    assert read.columns.tolist() == frame.columns.tolist()
    np.testing.assert_array_equal(read["number"], frame["number"])
    assert read["word, quoted"].tolist() == frame["word, quoted"].tolist()


@many
@given(st.lists(st.tuples(numbers, numbers), min_size=2, max_size=8), st.sampled_from([",", ";", "\t", "|"]))
def test_numbers_are_read_whatever_separates_them(tmp_path_factory, rows, separator):
    path = tmp_path_factory.mktemp("table") / "table.csv"
    lines = ["a" + separator + "b", *(separator.join(map(repr, row)) for row in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    np.testing.assert_array_equal(read_table(path).to_numpy(), rows)

"""Stream the words of `fsgmcmc.random` to dieharder and tabulate the p-values.

    python benchmarks/noise_battery.py --out noise-table.md

The tests read the words in the orders in which chains use them:

    counter   consecutive numbers of one key, the next key every 2²⁴ words
    steps     one parameter over the consecutive steps of a chain
    layers    a few parameters, neighbours and far ones, over the consecutive steps of a chain
    chains    one parameter at one step over consecutive chains

Keys are derived as in `sample` and `langevin`. Every test reads the words that follow those of the previous test. A
test that is WEAK is repeated on new words with three times the samples, and both outcomes are in the table. A p-value
is WEAK outside 0.005 to 0.995 and FAILED outside 10⁻⁶ to 1 − 10⁻⁶.
"""

import argparse
import contextlib
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray, UInt32

from fsgmcmc.random import _bits, fast_key

# dieharder's number of a test: the ntuples it is run with; None leaves the choice to dieharder.
BATTERY: dict[int, tuple[int | None, ...]] = {
    **dict.fromkeys((0, 1, 2, 3, 4, 8, 9, 10, 11, 12, 13, 15, 16, 100, 101, 102), (None,)),
    200: (2, 5),
    201: (2, 4),
    202: (3, 5),
    203: (0, 1),
    205: (None,),
    206: (None,),
    207: (None,),
    208: (None,),
    209: (None,),
}
MORE_SAMPLES = 3
# How often a perfect generator is WEAK, by simulation: 0.3 % below and 2.0 % above. A p-value is that of a
# Kolmogorov-Smirnov test of 100 others, and dieharder uses the distance to i / (n + 1), which is too small.
WEAK_RATE = 0.023

WORDS_PER_KEY = 1 << 24
WORDS_PER_CALL = 1 << 18
PARAMETER, STEP = 7, 1000
LAYERS = (0, 1, 2, 3, 64, 1024, 4097, 50000)


def noise_words(chain_key: PRNGKeyArray, step: Array, parameters: Array) -> UInt32[Array, " parameters"]:
    """The words that become the noise of some parameters of a chain at a step of `langevin`."""
    _, noise_key = jax.random.split(jax.random.fold_in(chain_key, step))
    return _bits(jax.random.key_data(noise_key), parameters)


def counter(key: PRNGKeyArray, call: Array) -> Array:
    """Consecutive numbers of a key."""
    calls_per_key = WORDS_PER_KEY // WORDS_PER_CALL
    start = call % calls_per_key * WORDS_PER_CALL
    data = jax.random.key_data(jax.random.fold_in(key, call // calls_per_key))
    return _bits(data, start + jnp.arange(WORDS_PER_CALL, dtype=jnp.uint32))


def steps(key: PRNGKeyArray, call: Array, parameters: tuple[int, ...] = (PARAMETER,)) -> Array:
    """Some parameters over consecutive steps of chain 0."""
    chain_key = jax.random.fold_in(key, 0)
    count = WORDS_PER_CALL // len(parameters)
    steps = call * count + jnp.arange(count, dtype=jnp.uint32)
    return jax.vmap(lambda step: noise_words(chain_key, step, jnp.array(parameters, jnp.uint32)))(steps)


def layers(key: PRNGKeyArray, call: Array) -> Array:
    """The parameters of `LAYERS` over consecutive steps of chain 0."""
    return steps(key, call, LAYERS)


def chains(key: PRNGKeyArray, call: Array) -> Array:
    """One parameter at one step over consecutive chains."""
    numbers = call * WORDS_PER_CALL + jnp.arange(WORDS_PER_CALL, dtype=jnp.uint32)
    parameter = jnp.array([PARAMETER], jnp.uint32)
    return jax.vmap(lambda chain: noise_words(jax.random.fold_in(key, chain), jnp.uint32(STEP), parameter))(numbers)


MODES: dict[str, Callable[[PRNGKeyArray, Array], Array]] = {
    "counter": counter,
    "steps": steps,
    "layers": layers,
    "chains": chains,
}


def words(mode: str, seed: int) -> Iterator[bytes]:
    """The words of a mode, an infinite stream."""
    _, _, run_key = jax.random.split(fast_key(jax.random.key(seed)), 3)
    compiled = jax.jit(MODES[mode])
    call = 0
    while True:
        yield np.asarray(compiled(run_key, jnp.uint32(call))).tobytes()
        call += 1


class Result(NamedTuple):
    """A line of dieharder's report."""

    name: str
    ntuple: int
    samples: int
    p: float
    assessment: str


LINE = re.compile(r"\s*(\w+)\|\s*(\d+)\|\s*\d+\|\s*(\d+)\|\s*([\d.]+)\|\s*(PASSED|WEAK|FAILED)")


def dieharder(stream: Iterator[bytes], test: int, ntuple: int | None, samples: int | None = None) -> list[Result]:
    """One run of dieharder on the next words."""
    command = ["dieharder", "-g", "200", "-d", str(test)]
    command += [] if ntuple is None else ["-n", str(ntuple)]
    command += [] if samples is None else ["-p", str(samples)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        # The pipe breaks when dieharder has read enough words.
        with contextlib.suppress(BrokenPipeError):
            for piece in stream:
                process.stdin.write(piece)
        report = process.stdout.read().decode()
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
    found = [Result(n, int(t), int(s), float(p), a) for n, t, s, p, a in LINE.findall(report)]
    if not found:
        raise RuntimeError(f"no result of test {test} in dieharder's report:\n{report}")
    return found


def run(mode: str, tests: list[int], seed: int) -> dict[tuple[str, int], list[str]]:
    """The column of a mode: for each test and ntuple the p-values, with the outcome of a second run."""
    stream, cells, count, doubts = words(mode, seed), {}, 0, 0
    began = time.monotonic()

    def show(result: Result) -> str:
        outcome = f"{result.p:.3f}" if result.assessment == "PASSED" else f"{result.p:.4g} {result.assessment}"
        print(f"{time.monotonic() - began:6.0f} s  {mode:8} {result.name} {result.ntuple}: {outcome}", flush=True)
        return outcome

    for test, ntuple in [(number, choice) for number in tests for choice in BATTERY[number]]:
        results = dieharder(stream, test, ntuple)
        outcomes = [show(result) for result in results]
        doubtful = [i for i, result in enumerate(results) if result.assessment != "PASSED"]
        again = dieharder(stream, test, ntuple, MORE_SAMPLES * results[0].samples) if doubtful else []
        for i in doubtful:
            outcomes[i] += f", again {show(again[i])}"
        for result, outcome in zip(results, outcomes, strict=True):
            cells.setdefault((result.name, result.ntuple), []).append(outcome)
        count, doubts = count + len(results), doubts + len(doubtful)
    print(
        f"{mode}: {count} p-values, {doubts} not PASSED at first ({WEAK_RATE * count:.1f} expected by chance)",
        flush=True,
    )
    return cells


def table(columns: dict[str, dict[tuple[str, int], list[str]]]) -> str:
    """Markdown, with a row for every test and ntuple."""
    rows = list(dict.fromkeys(row for cells in columns.values() for row in cells))
    lines = [["test", "ntuple", *columns], ["---"] * (2 + len(columns))]
    lines += [[name, str(n), *("; ".join(c.get((name, n), [])) for c in columns.values())] for name, n in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def main() -> None:
    """Run the battery."""
    parser = argparse.ArgumentParser(description="Run dieharder on the noise of fsgmcmc.")
    parser.add_argument("--modes", nargs="+", choices=MODES, default=list(MODES))
    parser.add_argument("--tests", nargs="+", type=int, choices=BATTERY, default=list(BATTERY), metavar="N")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="file for the table, which is also printed")
    options = parser.parse_args()
    columns = {}
    for mode in options.modes:
        columns[mode] = run(mode, options.tests, options.seed)
        if options.out:
            options.out.write_text(table(columns))
    print(table(columns))


if __name__ == "__main__":
    main()

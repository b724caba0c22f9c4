"""The time of an iteration by operation, measured by the profiler of XLA.

    python benchmarks/profile.py --task 1-d

Operations are classified by name: matrix products, the loop that draws noise, operations of a functional prior, all
others. The profiler itself adds a fraction of a microsecond per operation.
"""

import argparse
import tempfile
from collections import Counter
from pathlib import Path

import jax
import speed

from fsgmcmc.methods import SAMPLERS

STEPS = 300
TASKS = {
    "1-d": speed.extrapolation_task,
    "uci": speed.yacht_task,
    "minibatch": speed.minibatch_task,
}
KINDS = {
    "matrix products": ("dot",),
    "activation": ("tanh",),
    "drawing points, factor and solves": ("sort", "cholesky", "triangular", "select_fusion", "gather"),
}


def operations(program: speed.Program) -> Counter[str]:
    """Microseconds per iteration of each operation."""
    program.run(STEPS)
    options = jax.profiler.ProfileOptions()
    options.host_tracer_level, options.python_tracer_level = 3, 0
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder, profiler_options=options):
            program.run(STEPS)
        (trace,) = Path(folder).rglob("*.xplane.pb")
        data = jax.profiler.ProfileData.from_file(str(trace))
        seconds: Counter[str] = Counter()
        for plane in data.planes:
            for line in plane.lines:
                if "XLA" in line.name:
                    for event in line.events:
                        seconds[event.name] += event.duration_ns / 1000 / STEPS
    return seconds


def by_kind(seconds: Counter[str]) -> dict[str, float]:
    """The operations summed by purpose."""
    total: Counter[str] = Counter()
    for name, microseconds in seconds.items():
        if name.startswith(("while", "end:", "call", "Thunk", "Pjit")) or "::" in name:
            continue
        kind = next((kind for kind, words in KINDS.items() if any(word in name for word in words)), None)
        if kind is None:
            kind = "noise" if "dynamic-update-slice" in name else "update, energy and copies"
        total[kind] += microseconds
    return dict(total)


def main() -> None:
    """Profile the samplers and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--task", choices=TASKS, default="1-d")
    task = TASKS[parser.parse_args().task]()
    tables = {
        program.name: by_kind(operations(program))
        for program in speed.programs(task, peers=False)
        if program.name in SAMPLERS
    }
    kinds = sorted({kind for table in tables.values() for kind in table})
    print("| µs per iteration | " + " | ".join(tables) + " |")
    print("|---" * (len(tables) + 1) + "|")
    for kind in kinds:
        print(f"| {kind} | " + " | ".join(f"{table.get(kind, 0):.0f}" for table in tables.values()) + " |")


if __name__ == "__main__":
    main()

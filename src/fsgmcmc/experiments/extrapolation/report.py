"""One-dimensional extrapolation: the table, the figure and the file of records."""

import json
from dataclasses import asdict
from pathlib import Path

from fsgmcmc.experiments.extrapolation.run import Result, truth
from fsgmcmc.methods import title_of

COLUMNS = {
    "rmse_truth_observed": "rmse true",
    "rmse_gp_observed": "rmse GP",
    "rmse_gp_gap": "rmse gap",
    "std_observed": "sd data",
    "std_gap": "sd gap",
    "std_outer": "sd far",
    "nll": "test nll",
    "r_hat": "Rhat",
    "ess": "ESS",
    "microseconds_per_iteration": "µs",
}


LEGEND = (
    "rmse of the mean to the truth and to the exact GP where there are data, and to the GP in the gap; sd of the "
    "function where there are data, in the gap and beyond; R-hat and ESS of function values, the worst on the grid; "
    "µs per iteration"
)


def table(result: Result) -> list[list[str]]:
    """The records as rows of text, with a header; `LEGEND` explains the columns."""

    def cell(value: float | None, name: str) -> str:
        if value is None:
            return ""
        return f"{value:.0f}" if name in ("ess", "microseconds_per_iteration") else f"{value:.2f}"

    rows = [[title_of(record["method"]), *(cell(record[name], name) for name in COLUMNS)] for record in result.records]
    return [["method", *COLUMNS.values()], *rows]


def figure(result: Result, path: Path) -> None:
    """A panel per method, with the outline of the band of the exact GP."""
    from matplotlib.figure import Figure

    from fsgmcmc.plotting import function_panel

    methods = [record["method"] for record in result.records]
    columns, rows = 3, len(methods) // 3 + 1  # one panel is for the legend
    fig = Figure(figsize=(4.2 * columns, 3.2 * rows), layout="constrained")
    axes = fig.subplots(rows, columns, sharex=True, sharey=True).ravel()
    for panel, method in zip(axes, methods, strict=False):
        reference = None if method == "gp" else result.predictions["gp"]
        prediction = result.predictions[method]
        function_panel(
            panel,
            result.grid,
            prediction,
            data=result.data,
            truth=truth(result.grid),
            reference=reference,
            title=title_of(method),
        )
    axes[0].set_ylim(-3.6, 3.6)
    for empty in axes[len(methods) :]:
        empty.axis("off")
    axes[len(methods)].legend(*axes[0].get_legend_handles_labels(), loc="center", frameon=False, fontsize=10)
    fig.savefig(path, dpi=150)


def write(result: Result, folder: Path) -> None:
    """`extrapolation.json` and `extrapolation.png` in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    prior = {"noise": float(result.fit.noise), "evidence": result.fit.evidence, "kernel": str(result.fit.prior.kernel)}
    document = {"records": result.records, "config": asdict(result.config) | {"prior": prior}}
    (folder / "extrapolation.json").write_text(json.dumps(document, indent=2) + "\n")
    figure(result, folder / "extrapolation.png")

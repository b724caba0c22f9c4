"""The UCI report: what is bold, what is tested, what is left out."""

import csv
import math

import numpy as np
import pytest
from scipy import stats

from fsgmcmc.experiments.tables import compare, leaders, write_csv
from fsgmcmc.experiments.uci import published
from fsgmcmc.experiments.uci.report import COLUMNS, figure, markdown

EASE = (0.0, 0.3, -0.2, 0.5, 0.1, -0.4)  # how hard each split is, for every method alike
NOISE = (0.01, -0.02, 0.02, -0.01, 0.015, -0.015)


def record(method, split, score, *, dataset="yacht", preset="tuned", **changes):
    run = dict.fromkeys(COLUMNS, 1.0) | {"dataset": dataset, "method": method, "preset": preset, "split": split}
    return run | {"rmse": 10 * score, "rmse_std": score, "nll": score, "nll_std": score, "diverged": False} | changes


def runs(method, level, *, noise=0.0, splits=range(6), **changes):
    """Scores whose spread over splits is far larger than the differences between methods."""
    return [record(method, i, level + EASE[i] + noise * NOISE[i], **changes) for i in splits]


def cells(document, heading):
    """The first table under a heading as {row: {column: text}}."""
    body = document.split(f"### {heading}", 1)[1].split("\n### ")[0]
    head, _, *rows = [line[2:-2].split(" | ") for line in body.splitlines() if line.startswith("|")]
    return {row[0]: dict(zip(head[1:], row[1:], strict=True)) for row in rows}


def bold(document, heading, dataset="yacht"):
    return {name for name, text in cells(document, heading)[dataset].items() if text.startswith("**")}


def test_bold_is_whatever_is_not_significantly_worse_than_the_best():
    """SGHMC is worse by less than the noise; SGLD by 0.1, which only a paired test can see beside a spread of 0.3."""
    document = markdown(runs("fsghmc", 1.0) + runs("sghmc", 1.001, noise=1.0) + runs("sgld", 1.1, noise=1.0))
    for heading in ("RMSE, standardised", "RMSE, original", "Log-likelihood"):
        assert bold(document, heading) == {"fSGHMC", "SGHMC"}
    assert cells(document, "RMSE, original")["yacht"]["fSGHMC"] == "**10.50 ± 3.27**"
    assert cells(document, "Log-likelihood")["yacht"]["fSGHMC"] == "**−1.05 ± 0.33**"


def test_the_references_take_part_in_the_comparison():
    document = markdown(runs("fsghmc", 1.0) + runs("gp", 0.8, noise=1.0, r_hat=None))
    assert bold(document, "RMSE, standardised") == {"exact GP"}
    assert cells(document, "R-hat")["yacht"] == {"fSGHMC": "1.000", "exact GP": ""}


def test_the_paired_test_uses_common_splits_only():
    first, second = {0: 1.0, 1: 2.0, 2: 3.0, 7: 100.0}, {2: 3.2, 1: 2.1, 0: 1.4, 8: -100.0}
    test = compare(first, second)
    expected = stats.ttest_rel([1.0, 2.0, 3.0], [1.4, 2.1, 3.2])
    assert test.splits == 3
    np.testing.assert_allclose([test.difference, test.p], [-0.7 / 3, expected.pvalue])
    np.testing.assert_allclose(test.difference / test.error, expected.statistic)


def test_an_easy_split_that_one_method_skipped_does_not_choose_the_best():
    """Over its own splits B has the lower mean; over those both have, A wins every time."""
    a = {0: 1.0, 1: 1.1, 2: 1.2, 3: 9.0}
    b = {0: 2.0, 1: 2.11, 2: 2.19}
    assert leaders({"a": a, "b": b}) == {"a"}


@pytest.mark.parametrize(("shift", "word"), [(0.0, "no difference"), (0.5, "hurts"), (-0.5, "helps")])
def test_constant_differences_are_decided_without_a_warning(shift, word):
    scores = {split: 1.0 + split for split in range(4)}
    assert compare({split: score + shift for split, score in scores.items()}, scores).word == word


def test_a_diverged_run_is_counted_left_out_and_costs_the_bold():
    lost = record("fsgld", 5, math.nan, nll=None, nll_std=None, diverged=True)
    finite_but_diverged = record("fsghmc", 5, 1e9, diverged=True)
    infinite = record("sghmc", 5, 0.5, nll=math.inf)
    records = [*runs("sgld", 1.0), *runs("gp", 2.0, noise=1.0), lost, finite_but_diverged, infinite]
    for method in ("fsgld", "fsghmc", "sghmc"):
        records += runs(method, 0.5, splits=range(5))
    document = markdown(records)
    assert "left out of every mean: 3 (SGHMC on yacht 1, fSGHMC on yacht 1, fSGLD on yacht 1)" in document
    row = cells(document, "RMSE, standardised")["yacht"]
    assert row["fSGLD"] == row["fSGHMC"] == row["SGHMC"] == "0.64 ± 0.27 (5)"
    assert row["SGLD"] == "**1.05 ± 0.33**"
    assert "nan" not in document


def test_a_method_that_always_diverged_leaves_an_empty_cell(tmp_path):
    records = runs("sgld", 1.0) + runs("fsgld", math.nan, diverged=True)
    assert cells(markdown(records), "Log-likelihood")["yacht"]["fSGLD"] == ""
    assert "| fSGLD − SGLD | 0 |  |  | not tested |" in markdown(records)
    figure(records, tmp_path / "uci.png")
    assert (tmp_path / "uci.png").stat().st_size > 0


def test_a_repeated_run_replaces_the_earlier_one():
    document = markdown([record("sgld", 0, math.nan, diverged=True), record("sgld", 0, 0.7)])
    assert "Runs: 1. Diverged, and left out of every mean: 0." in document
    assert cells(document, "RMSE, standardised")["yacht"]["SGLD"] == "0.70"


def test_one_split_gives_neither_spread_nor_test():
    document = markdown(runs("sgld", 1.0, splits=[0]) + runs("fsgld", 0.5, splits=[0]))
    assert cells(document, "RMSE, standardised")["yacht"]["fSGLD"] == "0.50"
    assert not bold(document, "RMSE, standardised")
    assert "| yacht | fSGLD − SGLD | 1 | −0.500 |  | not tested | −0.500 |  | not tested |" in document


def test_functional_and_parameter_prior_are_compared_score_by_score():
    parameter, functional = runs("sghmc", 1.0, noise=1.0), runs("fsghmc", 0.8)
    for run in functional:
        run["nll_std"] += 1.0
    line = next(line for line in markdown(parameter + functional).splitlines() if "fSGHMC − SGHMC" in line)
    assert [cell for cell in line.split(" | ") if cell.strip("| ") in ("helps", "hurts")] == ["helps", "hurts |"]
    assert "| 6 | −0.200 ± 0.007 | < 0.001 | helps |" in line


def test_unknown_names_come_last_and_have_no_published_numbers(tmp_path):
    names = {"method": "a|b", "dataset": "aardvark"}
    records = [record(**(names | {"split": i, "score": 1.0 + i})) for i in range(2)] + runs("gp", 0.5)
    document = markdown(records, note="Where it was measured.")
    head = next(line for line in document.splitlines() if line.startswith("|  | exact GP"))
    assert head.startswith(r"|  | exact GP | a\|b | paper: SGLD |")
    rows = cells(document, "RMSE, standardised")
    assert list(rows) == ["yacht", "aardvark"]
    assert rows["yacht"]["paper: fSGHMC"] == "0.25"
    assert document.startswith("# UCI regression\n\nWhere it was measured.\n")
    figure(records, tmp_path / "uci.png")
    assert (tmp_path / "uci.png").stat().st_size > 0


def test_numbers_of_others_are_printed_as_in_the_source():
    document = markdown(runs("sgld", 1.0, dataset="kin8nm") + runs("sgld", 1.0))
    rows = cells(document, "RMSE, original")
    assert [rows["kin8nm"][name] for name in (published.PBP, published.MC_DROPOUT)] == ["0.10", "0.079"]
    assert rows["yacht"][published.EXACT_GP] == "0.323"
    log_likelihood = cells(document, "Log-likelihood")
    assert log_likelihood["yacht"][published.REFINED_VI] == "−1.68"
    assert log_likelihood["kin8nm"][published.ENSEMBLE_OF_TEN] == "1.17"
    assert "from memory" not in document


def test_presets_are_kept_apart():
    document = markdown(runs("sgld", 1.0, preset="paper") + runs("sgld", 0.0, preset="tuned"))
    tuned, paper = document.split("## Preset `paper`")
    assert cells(tuned, "RMSE, standardised")["yacht"]["SGLD"] == "0.050 ± 0.327"
    assert cells(paper, "RMSE, standardised")["yacht"]["SGLD"] == "1.05 ± 0.33"


def test_csv_gives_back_what_was_written(tmp_path):
    written = [record("sgld", 0, 1 / 3, ess=None), record("gp, exact", 1, math.nan, r_hat=None, diverged=True)]
    write_csv([run | {"unknown": 1} for run in written], COLUMNS, tmp_path / "uci.csv")
    with (tmp_path / "uci.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert all(tuple(row) == COLUMNS for row in rows)
    assert float(rows[0]["rmse_std"]) == 1 / 3
    assert rows == [{name: "" if run[name] is None else str(run[name]) for name in COLUMNS} for run in written]

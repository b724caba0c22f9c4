"""The benchmark of predictions beyond the data: splits, scores, records and the report."""

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.stats

# The benchmarks are next to the tests and not installed.
sys.path.append(str(Path(__file__).parents[1]))

from benchmarks import beyond_data, beyond_report
from benchmarks.beyond_tables import Problem, Split, Table, highest, principal_component, problem_of, split_of

from fsgmcmc.predictions import MomentPrediction


def a_frame(rows=120):
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "id": np.arange(rows),
            "dose": rng.normal(size=rows),
            "year": rng.integers(1990, 2000, rows),
            "zone": rng.choice(["a", "b", "c"], rows, p=[0.6, 0.25, 0.15]),
            "paved": rng.choice(["no", "yes"], rows),
            "y": np.exp(rng.normal(size=rows)),
        }
    )


def a_table(frame, **columns):
    return Table("frame", "none", lambda data: frame, target="y", feature="dose", ignored=("id",), **columns)


@pytest.mark.parametrize("levels", [2, 7, 1000])
def test_held_out_values_are_above_all_others_and_their_share_is_the_nearest_possible(levels):
    values = np.random.default_rng(1).integers(0, levels, 400).astype(float)
    held = highest(values)
    assert values[held].min() > values[~held].max()
    possible = [np.mean(values >= level) for level in np.unique(values)[1:]]
    assert abs(held.mean() - 0.15) == min(abs(share - 0.15) for share in possible)


def test_a_constant_column_cannot_be_held_out():
    with pytest.raises(ValueError, match="all values are equal"):
        highest(np.ones(10))


def test_the_principal_component_does_not_depend_on_units_and_has_a_fixed_sign():
    rng = np.random.default_rng(2)
    shared = rng.normal(size=(200, 1))
    x = np.hstack([shared, shared, rng.normal(size=(200, 1))]) + 0.1 * rng.normal(size=(200, 3))
    found = principal_component(x)
    assert np.allclose(found, principal_component(x * [1e3, 1e-3, 1.0] + 5.0))
    assert np.corrcoef(found, shared[:, 0])[0, 1] > 0.99


def test_parts_of_a_table_are_those_of_its_columns_and_text_becomes_numbers():
    frame = a_frame()
    frame.loc[3, "dose"] = np.nan
    problem = problem_of(a_table(frame, time="year", category="zone", held=("c",), log_target=True))
    kept = frame.drop(index=3)
    assert problem.features == ("dose", "year", "zone_a", "zone_b", "zone_c", "paved_yes")
    assert np.allclose(problem.y, np.log(kept["y"]))
    assert list(problem.parts) == ["feature", "direction", "category", "time"]
    assert np.array_equal(problem.parts["category"], kept["zone"] == "c")
    year, last = problem.x[:, 1], problem.parts["time"]
    assert year[last].min() > year[~last].max()


def test_a_category_that_is_no_feature_can_be_held_out():
    table = Table("frame", "none", lambda data: a_frame(), "y", "dose", category="zone", held=("b",), ignored=("zone",))
    problem = problem_of(table)
    assert not any(name.startswith("zone") for name in problem.features)
    assert np.array_equal(problem.parts["category"], a_frame()["zone"] == "b")


def test_a_split_uses_every_row_once_and_depends_on_the_seed_only():
    problem = problem_of(a_table(a_frame()))
    split = split_of(problem, "feature", seed=3)
    assert sorted([*split.y, *split.y_test]) == sorted(problem.y)
    assert split.inside == max(round(0.125 * (~problem.parts["feature"]).sum()), 10)
    assert np.array_equal(split.y_test[split.inside :], problem.y[problem.parts["feature"]])
    assert np.array_equal(split.x, split_of(problem, "feature", seed=3).x)
    assert not np.array_equal(split.y, split_of(problem, "feature", seed=4).y)


def test_a_split_has_ten_rows_inside_where_an_eighth_is_less():
    problem = Problem(("x",), np.arange(40.0)[:, None], np.arange(40.0), {"feature": np.arange(40) > 33})
    assert split_of(problem, "feature", seed=0).inside == 10


def test_scores_are_those_of_standardised_targets_inside_and_outside():
    y, unit = np.array([0.0, 2.0, -2.0, 8.0]), 4.0
    split = Split(np.zeros((2, 1)), np.array([-unit, unit]), np.zeros((4, 1)), y, inside=3)
    sd = np.array([[1.0], [1.0], [1.0], [3.0]])
    found = beyond_data.scores(MomentPrediction(np.zeros((4, 1)), np.zeros((4, 1)), sd), split)
    density = scipy.stats.norm(0, sd[:, 0] / unit).logpdf(y / unit)
    assert found["nll_inside"] == pytest.approx(-density[:3].mean())
    assert found["nll_outside"] == pytest.approx(-density[3])
    assert (found["coverage_inside"], found["coverage_outside"], found["sd_ratio"]) == (pytest.approx(1 / 3), 0.0, 3.0)
    # The CRPS of N(0, s²) at 0 is s (√2 − 1) / √π.
    alone = Split(split.x, split.y, split.x_test[:2], np.zeros(2), inside=1)
    at_mean = beyond_data.scores(MomentPrediction(np.zeros((2, 1)), np.zeros((2, 1)), sd[:2]), alone)
    assert at_mean["crps_inside"] == pytest.approx((np.sqrt(2) - 1) / np.sqrt(np.pi) / unit)


def a_record(table, method, nll, part="feature", coverage=0.9, seed=0):
    sizes = {"features": 2, "rows": 80, "rows_inside": 10, "rows_outside": 14}
    scores = {f"{name}_{side}": 1.0 for name in ("crps", "coverage") for side in ("inside", "outside")}
    scores |= {"nll_inside": -nll, "nll_outside": nll, "coverage_outside": coverage, "sd_ratio": 1.5, "seconds": 2.0}
    return {"table": table, "part": part, "method": method, "seed": seed, **sizes, **scores}


def test_a_killed_run_resumes_and_repeats_only_what_failed(tmp_path, monkeypatch):
    monkeypatch.setattr(beyond_data, "TABLES", {"frame": a_table(a_frame())})
    calls = []

    def method(split, seed, fails=False):
        calls.append(seed)
        if fails:
            raise ArithmeticError("singular")
        zeros = np.zeros((len(split.y_test), 1))
        return MomentPrediction(zeros, zeros, zeros + 1.0)

    def run(**methods):
        for task in beyond_data.tasks_of(["frame"], list(methods), 2, tmp_path, None, None):
            beyond_data.measure(task, methods)

    run(ours=method, gp=lambda split, seed: method(split, seed, fails=True))
    assert len(calls) == 8
    assert [record["error"] for record in beyond_report.read(tmp_path) if "error" in record] == (
        ["ArithmeticError: singular"] * 4
    )
    # The run is killed while it writes the last of the records.
    path = tmp_path / beyond_report.RECORDS
    path.write_text(path.read_text() + '{"table": "fra')
    calls.clear()
    run(ours=method, gp=method)
    assert len(calls) == 4
    assert len(beyond_report.read(tmp_path)) == 8
    assert not any("error" in record for record in beyond_report.read(tmp_path))
    run(ours=method, gp=method)
    assert len(calls) == 4


def test_a_table_that_is_not_there_is_skipped_with_the_reason(tmp_path, capsys):
    assert not beyond_data.tasks_of(["yacht"], ["ours"], 1, tmp_path, tmp_path, None)
    assert "yacht is skipped: there is no UCI_Datasets" in capsys.readouterr().out


def test_tables_weigh_equally_and_differences_are_paired_by_table():
    # On table b there are two parts, which count as one table.
    nll = {"ours": [1.0, 2.0, 4.0, 0.0], "gp": [2.0, 1.0, 3.0, 100.0], "network": [0.0, 0.0, 0.0, 0.0]}
    places = [("a", "feature"), ("b", "feature"), ("b", "time"), ("c", "feature")]
    records = [
        a_record(table, method, value, part)
        for method, values in nll.items()
        for (table, part), value in zip(places, values, strict=True)
    ]
    assert beyond_report.by_table(records, "ours", "nll_outside") == {"a": 1.0, "b": 3.0, "c": 0.0}
    assert beyond_report.times_best(records, list(nll), "nll_outside") == {"ours": 2, "gp": 1}
    assert beyond_report.times_best(records, list(nll), "nll_inside") == {"ours": 1, "gp": 2}
    assert beyond_report.median_difference(records, "gp", "nll_outside") == 1.0


def test_a_split_on_which_one_method_failed_counts_for_none(tmp_path):
    records = [a_record(table, method, 1.0) for table in ("cars", "yacht") for method in ("ours", "gp")]
    failed = {name: records[-1][name] for name in ("table", "part", "method", "seed")} | {"error": "singular"}
    shown = beyond_report.complete([*records[:-1], failed], ("ours", "gp"))
    assert {record["table"] for record in shown} == {"cars"}
    for record in [*records[:-1], failed]:
        beyond_report.append(tmp_path / beyond_report.RECORDS, record)
    beyond_report.write(tmp_path, ["ours", "gp", "bde"], ["cars", "yacht"])
    page = (tmp_path / "beyond-data.md").read_text()
    assert "Tables: 1. Splits: 1 of 2" in page
    assert "- yacht, feature, gp, 0: singular" in page
    assert "| yacht |" not in page
    assert len((tmp_path / "beyond-data.csv").read_text().splitlines()) == 5
    assert (tmp_path / "beyond-data.png").stat().st_size > 10_000


def test_the_last_record_of_a_key_counts(tmp_path):
    path = tmp_path / beyond_report.RECORDS
    path.write_text("\n".join(json.dumps(a_record("a", "ours", nll)) for nll in (1.0, 2.0)) + "\n")
    assert [record["nll_outside"] for record in beyond_report.read(tmp_path)] == [2.0]

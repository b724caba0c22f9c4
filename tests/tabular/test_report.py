"""The page says what the numbers say, to whom and however they come."""

import base64
import dataclasses
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fsgmcmc.data import Standardiser
from fsgmcmc.estimators import FunctionalBNNClassifier, FunctionalBNNRegressor
from fsgmcmc.estimators.novelty import Novelty
from fsgmcmc.likelihoods import StudentT
from fsgmcmc.predictions import CategoricalPrediction, GaussianPrediction
from fsgmcmc.priors import GaussianProcess
from fsgmcmc.priors.kernels import rbf
from fsgmcmc.tabular import checks, figures
from fsgmcmc.tabular._page import number, percent
from fsgmcmc.tabular.columns import Column, Columns
from fsgmcmc.tabular.model import HoldoutResult, TableModel
from fsgmcmc.tabular.report import write_report

FINE = {"r_hat": 1.01, "r_hat_median": 1.0, "ess": 400.0, "warnings": []}
NASTY = "</td><script>alert('1 & 2')</script><img src=x onerror=\"go()\">"
EMPTY_TAGS = {"meta", "img"}


def warning(code: str, message: str = "") -> dict[str, Any]:
    """A diagnostic as it is stored."""
    return {"code": code, "value": 0.0, "message": message}


class Read(HTMLParser):
    """The tags of a page, the texts between them, and its figures."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.source, self.tags, self.figures, self.open = page.read_text(encoding="utf-8"), [], [], []
        self.attributes: set[str] = set()
        self.parts: list[str] = []
        self.feed(self.source)
        assert not self.open, f"never closed: {self.open}"
        self.text = " ".join(" ".join(self.parts).split())
        cells = re.findall(r'<th scope="row">(.*?)</th><td class="value">(.*?)</td>', self.source)
        self.scores = dict(cells)
        self.verdicts = re.findall(r"</span><b>(.*?)</b>", self.source)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.open += [] if tag in EMPTY_TAGS else [tag]
        self.attributes |= {name for name, _ in attrs}
        self.figures += [value for name, value in attrs if name == "src"]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.parts.append(data)


def model_of(estimator: Any, **changes: Any) -> TableModel:
    """A model whose estimator was never fitted, but looks as if."""
    process = GaussianProcess(rbf())
    estimator.scale_ = Standardiser(np.zeros(1), np.ones(1))
    estimator.novelty_ = Novelty(process, np.zeros((3, 1), np.float32), 0.5, np.zeros(1), np.ones(1))
    estimator.energy_, estimator.info_ = np.zeros((4, 25)), {"interrupted": False}
    estimator.kernel_, estimator.n_rows_ = "linear + rbf", 1234
    estimator.noise_, estimator.likelihood_ = 1.0, StudentT(1.0)
    estimator.method_ = "fsghmc" if estimator.method == "auto" else estimator.method
    columns = Columns((Column("age", "number"), Column("town", "category", categories=("here", "there"))))
    plain: dict[str, Any] = {"id_column": None, "notes": (), "scores": {}, "held_out": 0, "diagnostics": FINE}
    if hasattr(estimator, "classes_"):
        plain["most_frequent"] = str(estimator.classes_[0])
    return TableModel(estimator, columns, **{"target": "price", **plain, **changes})


def regression(rows: int, error: float = 1.0, seed: int = 0) -> HoldoutResult:
    """A predictive distribution N(f, 1) with f ~ N(0, 9), and truths whose noise is `error` instead of 1."""
    generator = np.random.default_rng(seed)
    f = generator.normal(0, 3, rows)
    y = f + error * generator.normal(size=rows)
    return HoldoutResult(y, GaussianPrediction(np.tile(f, (2, 1))[:, :, None], 1.0), generator.uniform(0, 0.45, rows))


def classification(rows: int, classes: int, certainty: float = 1.0, seed: int = 0) -> HoldoutResult:
    """Labels drawn from softmax(logits), and a prediction that has `certainty` times these."""
    generator = np.random.default_rng(seed)
    logits = generator.normal(0, 2, (rows, classes))
    y = (logits + generator.gumbel(size=logits.shape)).argmax(axis=1)
    return HoldoutResult(y, CategoricalPrediction(certainty * logits[None]), generator.uniform(0, 0.45, rows))


def page_of(model: TableModel, held: HoldoutResult | None, folder: Path, source: str = "houses.csv") -> Read:
    return Read(write_report(model, held, folder, source))


def classifier(classes: list[str]) -> FunctionalBNNClassifier:
    estimator = FunctionalBNNClassifier()
    estimator.classes_ = np.array(classes)
    return estimator


def test_numbers_are_those_of_the_scores(tmp_path):
    held = regression(88)
    page, scores = page_of(model_of(FunctionalBNNRegressor()), held, tmp_path), held.scores
    assert page.scores == {
        "Typical error (RMSE)": number(scores["rmse"]),
        "Rows in 50 % intervals": percent(scores["coverage_50"]),
        "Rows in 90 % intervals": percent(scores["coverage_90"]),
        "Rows in 95 % intervals": percent(scores["coverage_95"]),
        "Width of the 90 % interval": number(scores["width_90"]),
        "Error of the distribution (CRPS)": number(scores["crps"]),
        "Log loss (NLL)": number(scores["nll"]),
    }
    # The constant prediction is the mean of the training rows, here 0.
    constant = np.sqrt(np.mean(held.y**2))
    assert f"on 88 rows held out from the fit: {number(scores['rmse'])} (always" in page.text
    assert f"predicting the average: {number(constant)})" in page.text


def test_class_numbers_are_those_of_the_scores(tmp_path):
    held = classification(300, 3)
    page, scores = page_of(model_of(classifier(["red", "green", "blue"])), held, tmp_path), held.scores
    assert page.scores["Accuracy"] == percent(scores["accuracy"])
    for name, key in (("Calibration error (ECE)", "ece"), ("Brier score", "brier"), ("Log loss (NLL)", "nll")):
        assert page.scores[name] == number(scores[key])
    share = percent(np.mean(held.y == 0)).replace("\N{NO-BREAK SPACE}", " ")
    assert f"most frequent class “red”: {share}" in page.text
    groups = [
        int(n.replace(",", "")) for n in re.findall(r"of ([\d,]+) rows; [\d,]+ to [\d,]+ is consistent", page.text)
    ]
    assert sum(groups[1:]) == 300, "every row belongs to one group"


@pytest.mark.parametrize(
    ("rows", "error", "verdict"),
    [
        (400, 1.0, "Yes"),
        (400, 2.0, "No, overconfident"),
        (400, 0.4, "Underconfident"),
        (12, 1.0, "Too few rows to decide"),
        (1, 1.0, "Too few rows to decide"),
        (12, 30.0, "No, overconfident"),
    ],
)
def test_intervals_are_judged_by_their_coverage_and_its_sampling_error(rows, error, verdict):
    model = model_of(FunctionalBNNRegressor())
    assert checks.calibration(checks.facts_of(model, regression(rows, error))).title == verdict


@pytest.mark.parametrize(
    ("rows", "certainty", "verdict"),
    [
        (1000, 1.0, "Yes"),
        (1000, 3.0, "No, overconfident"),
        (1000, 0.4, "Underconfident"),
        (12, 1.0, "Too few rows to decide"),
    ],
)
def test_probabilities_are_judged_by_how_often_they_come_true(rows, certainty, verdict):
    model = model_of(classifier(["a", "b", "c"]))
    assert checks.calibration(checks.facts_of(model, classification(rows, 3, certainty))).title == verdict


@pytest.mark.parametrize("kind", ["regression", "classification"])
def test_right_models_are_seldom_called_wrong(kind):
    # Each of at most five counts leaves its band with probability 1 %: of 60 right models more than 8 with p < 0.01.
    if kind == "regression":
        model, helds = model_of(FunctionalBNNRegressor()), [regression(150, seed=seed) for seed in range(60)]
    else:
        model, helds = model_of(classifier(["a", "b"])), [classification(150, 2, seed=seed) for seed in range(60)]
    levels = [checks.calibration(checks.facts_of(model, held)).level for held in helds]
    assert sum(level != "good" for level in levels) <= 8


def test_a_model_that_is_no_better_than_a_constant_is_reported():
    model, generator = model_of(FunctionalBNNRegressor()), np.random.default_rng(0)
    noise, prediction = generator.normal(size=200), GaussianPrediction(0.01 * generator.normal(size=(2, 200, 1)), 1.0)
    useless, wrong = (HoldoutResult(noise, each, np.zeros(200)) for each in (prediction, prediction.rescaled(3.0, 1.0)))
    titles = [checks.closeness(checks.facts_of(model, held)).title for held in (regression(200), useless, wrong)]
    assert titles == ["Yes", "Not clearly", "No, worse"]
    assert checks.alarms(model, useless) == checks.alarms(model, regression(200)) == []
    worse, overconfident = checks.alarms(model, wrong)
    assert worse.startswith("Is it better than a constant prediction? No, worse.")
    assert overconfident.startswith("Are its intervals calibrated? No, overconfident.")


def test_whatever_comes_from_outside_is_text(tmp_path):
    columns = Columns((Column(NASTY, "number"), Column("b", "number")))
    changes = {"target": NASTY, "notes": (f"note {NASTY}",), "id_column": NASTY, "columns": columns}
    changes["diagnostics"] = {**FINE, "warnings": [warning("unknown", NASTY)]}
    plain = page_of(
        model_of(classifier(["a", "b"]), notes=("n",), id_column="i"), classification(60, 2), tmp_path / "plain"
    )
    model = dataclasses.replace(model_of(classifier([NASTY, NASTY + "2"])), **changes)
    page = page_of(model, classification(60, 2), tmp_path / "<i>model", source=f"{NASTY}.csv".replace("/", ":"))
    assert set(page.tags) == set(plain.tags)
    assert page.attributes == plain.attributes
    assert page.tags.count("img") == plain.tags.count("img") == 3
    assert page.text.count(" ".join(NASTY.split())) >= 7
    assert "fsgmcmc predict '<i>model' new.csv" in page.text


def test_names_that_no_font_or_formula_can_draw_are_drawn(tmp_path):
    names = ["$x^{$", "数据", "\\frac{", "a\nb\tc", "x" * 500, "\ud83d", "%s {} $title"]
    for name in names:
        assert figures.interval_figure(regression(5).prediction, regression(5).y, name)
    held = classification(30, len(names))
    page = page_of(model_of(classifier(names), target=names[-1] + names[-2]), held, tmp_path)
    assert "Predicting %s {} $title?" in page.text


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_the_page_needs_nothing_else(tmp_path, task):
    held = regression(300) if task == "regression" else classification(300, 2)
    model = model_of(FunctionalBNNRegressor() if task == "regression" else classifier(["no", "yes"]))
    page = page_of(model, held, tmp_path)
    assert not re.search(r"https?:|<script|<link|@import|url\(|//", re.sub(r"base64,[^\"]*", "", page.source))
    drawn = [base64.b64decode(source.removeprefix("data:image/png;base64,"), validate=True) for source in page.figures]
    assert all(png.startswith(b"\x89PNG") for png in drawn)
    assert (tmp_path / "calibration.png").read_bytes() == drawn[0]
    assert (tmp_path / "predictions.png").read_bytes() == drawn[1]


def test_without_a_check_nothing_is_claimed_and_older_figures_go(tmp_path):
    model = model_of(FunctionalBNNRegressor())
    page_of(model, regression(30), tmp_path)
    page = page_of(model, None, tmp_path)
    assert "The accuracy of the predictions is unknown" in page.text
    assert page.verdicts == ["Not checked", "Not checked", "Yes"]
    assert page.figures == []
    assert page.scores == {}
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


@pytest.mark.parametrize(
    ("found", "verdict", "text"),
    [
        (FINE, "Yes", "No action is needed."),
        ({**FINE, "r_hat": 1.2, "warnings": [warning("r_hat")]}, "Not fully", "--samples 100"),
        ({**FINE, "r_hat": 3.0, "r_hat_median": 2.0, "warnings": [warning("r_hat")]}, "No", "R-hat, is 3 "),
        (
            {**FINE, "r_hat": float("inf"), "r_hat_median": float("inf"), "warnings": [warning("r_hat")]},
            "No",
            "is infinite",
        ),
        ({**FINE, "warnings": [warning("energy_drift")]}, "Not fully", "--burn-in 9000"),
        ({**FINE, "warnings": [warning("moon", "The moon is full.")]}, "Not fully", "The moon is full."),
        ({**FINE, "warnings": [warning("process_held_out")]}, "Not fully", "--hidden 100,100"),
        ({"warnings": [warning("few_draws")]}, "Too few draws to decide", "--samples 25"),
    ],
)
def test_diagnostics_become_words_to_act_upon(tmp_path, found, verdict, text):
    page = page_of(model_of(FunctionalBNNRegressor(), diagnostics=found), None, tmp_path)
    assert page.verdicts[2] == verdict
    assert text in page.text
    assert "<code>" not in page.text
    assert not text.startswith("--") or "code" in page.tags


def test_an_interrupted_fit_says_so(tmp_path):
    model = model_of(FunctionalBNNRegressor(samples=40))
    model.estimator.info_["interrupted"] = True
    page = page_of(model, None, tmp_path)
    assert page.verdicts[2] == "Stopped early"
    assert "interrupted and kept 25 of 40 draws of each chain" in page.text


def test_an_approximation_is_not_said_to_have_sampled(tmp_path):
    found = {**FINE, "warnings": [warning("r_hat")]}
    page = page_of(model_of(FunctionalBNNRegressor(method="bbb"), diagnostics=found), None, tmp_path)
    assert page.verdicts[2] == "Does not apply"
    assert "R-hat" not in page.text
    assert "--samples" not in page.text


def test_rows_beyond_the_training_data_are_counted_and_compared():
    model, held = model_of(FunctionalBNNRegressor()), regression(100)
    beyond = np.arange(100) < 20
    far = dataclasses.replace(held, y=np.where(beyond, held.y + 7, held.y), novelty=np.where(beyond, 1.8, 0.2))

    def first_sentence(held: HoldoutResult) -> str:
        return checks.extrapolation(model, checks.facts_of(model, held))[0]

    errors = [number(np.sqrt(np.mean((far.y - far.prediction.mean[:, 0])[own] ** 2))) for own in (beyond, ~beyond)]
    assert first_sentence(held).startswith("None of the 100 held-out rows extrapolates")
    assert first_sentence(far).startswith(f"20 of 100 held-out rows ({percent(0.2)}) extrapolate.")
    assert f"{errors[0]} there and {errors[1]} elsewhere" in first_sentence(far)
    assert "too few to compare" in first_sentence(
        dataclasses.replace(held, novelty=np.where(np.arange(100) < 3, 1.8, 0.2))
    )
    assert "1 held-out row (" in first_sentence(dataclasses.replace(regression(1), novelty=2 * np.ones(1)))


@pytest.mark.parametrize("classes", [2, 13, 50])
def test_many_classes_and_columns_fit_on_a_page(tmp_path, classes):
    columns = Columns(tuple(Column(f"c{index}", "number") for index in range(300)))
    names = [f"class {index:02d}" for index in range(classes)]
    model = dataclasses.replace(model_of(classifier(names)), columns=columns, notes=("a note",) * 40)
    page = page_of(model, classification(500, classes), tmp_path)
    assert "300: c0, c1," in page.text
    assert "c11, and 288 more" in page.text
    assert page.tags.count("li") == 8  # six notes, how many more there are, and that the sampling needs nothing
    assert "straight-line plus smooth (linear + rbf), selected by evidence" in page.text


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_any_unit_will_do(tmp_path, scale):
    held = regression(60)
    page = page_of(
        model_of(FunctionalBNNRegressor()),
        HoldoutResult(scale * held.y, held.prediction.rescaled(0.0, scale), held.novelty),
        tmp_path,
    )
    mantissa, power = page.scores["Typical error (RMSE)"].split(" × 10")
    assert float(mantissa) * 10.0 ** int(power.translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789"))) == pytest.approx(
        scale * held.scores["rmse"], rel=0.005
    )

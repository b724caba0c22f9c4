"""Damaged input: one sentence and exit code 2, never a traceback."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from fsgmcmc.cli import app
from fsgmcmc.estimators import FunctionalBNNRegressor
from fsgmcmc.estimators.serialization import load_model, save_model
from fsgmcmc.tabular.model import Request, fit_table

QUICK = {"kernel": "rbf", "hidden": (5,), "chains": 1, "samples": 4, "burn_in": 20, "thinning": 1}
GOOD = "x,colour,y\n" + "\n".join(f"{i},{'red' if i % 3 else 'blue'},{i * 1.5}" for i in range(30)) + "\n"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A model folder of a table with a number, a text, missing values and a target."""
    frame = pd.DataFrame({"x": np.arange(30.0), "colour": ["red", "blue", None] * 10, "y": np.arange(30) * 1.5})
    fitted, _ = fit_table(frame, Request("y", settings=tuple(QUICK.items())))
    fitted.save(tmp_path_factory.mktemp("models") / "model")
    return tmp_path_factory.getbasetemp() / next(tmp_path_factory.getbasetemp().glob("models*/model"))


def refused(result, *words):
    assert result.exit_code == 2, result.output
    assert isinstance(result.exception, SystemExit), result.exception
    assert "Traceback" not in result.output
    for word in words:
        assert word in result.output.replace("\n", " "), result.output


def put(folder, content, name="data.csv"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


def fit(tmp_path, content, *options, target="y", name="data.csv"):
    data = put(tmp_path, content, name)
    return CliRunner().invoke(app, ["fit", data, "--target", target, "--out", str(tmp_path / "model"), *options])


def rows(column, count=30):
    """A table whose column z is made by `column(i)`."""
    return "z,y\n" + "\n".join(f"{column(i)},{i}" for i in range(count)) + "\n"


FILES = {
    "an empty file": ("", ["empty"]),
    "blank lines only": ("\n\n  \n", ["empty"]),
    "a header only": ("x,y\n", ["no rows"]),
    "no header": ("1,2\n3,4\n5,6\n", ["begins with numbers", "names"]),
    "one row": ("x,y\n1,2\n", ["too few"]),
    "four rows": ("x,y\n1,2\n2,3\n3,4\n4,5\n", ["4 row(s)", "too few"]),
    "a constant target": ("x,y\n" + "\n".join(f"{i},7" for i in range(30)), ["7.0 in every row"]),
    "a target that is missing everywhere": ("x,y\n" + "\n".join(f"{i}," for i in range(30)), ["too few"]),
    "an infinite target": (GOOD + "31,red,inf\n", ["the target 'y' is infinite in row 31"]),
    "an infinite input": (GOOD + "-inf,red,3\n", ["column 'x' is infinite in row 31"]),
    "a word among numbers": (GOOD + "12o,red,3\n", ["column 'x' is numeric except for 1", "'12o' in row 31"]),
    "a word among target numbers": (GOOD + "12,red,3..5\n", ["the target 'y'", "'3..5' in row 31"]),
    "a duplicate column": (GOOD.replace("colour", "x"), ["more than one column named 'x'"]),
    "a column without a name": (GOOD.replace("colour", ""), ["column 2", "has no name"]),
    "a row that is too long": (GOOD + "1,red,2,3\n", ["line 32", "4 values where the header has 3"]),
    "a row that is too short": (GOOD + "1,red\n", ["line 32", "2 values"]),
    "a quote that does not end": (GOOD + '1,"red,2\n', ["cannot be read"]),
    "a separator that is not known": (GOOD.replace(",", ":"), ["one column", "--separator"]),
    "a picture": (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", ["not a text file"]),
    "another encoding": (GOOD.replace("red", "röd").encode("latin-1"), ["line 3", "UTF-8"]),
    "names for categories": (rows(lambda i: f"Person {i}"), ["30 different texts", "--drop"]),
    "dates as texts": (rows(lambda i: f"2024-01-{i + 1:02d}"), ["holds dates", "--drop"]),
    "percentages": (rows(lambda i: f"{i}%"), ["holds percentages"]),
    "thousands": (rows(lambda i: f'"{i + 1},000"'), ["commas between thousands"]),
    "numbers beyond all units": (rows(lambda i: f"{i}e200"), ["reaches 2.9e+201"]),
    "all columns constant": (rows(lambda i: 3), ["no column is left"]),
    "all columns empty": (rows(lambda i: ""), ["no column is left"]),
    "only the target": ("y\n" + "\n".join(str(i) for i in range(30)), ["no column is left"]),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_cannot_be_fitted(name, tmp_path):
    content, words = FILES[name]
    refused(fit(tmp_path, content), *words)
    assert not (tmp_path / "model" / "model.json").exists()


OPTIONS = {
    "a target that is not there": (["--target", "price"], ["no column 'price'", "'colour'"]),
    "an id that is not there": (["--id", "name"], ["--id", "'name'"]),
    "a dropped column that is not there": (["--drop", "a,b"], ["--drop", "'a'"]),
    "the target dropped": (["--drop", "y"], ["is the target"]),
    "an unknown kernel": (["--kernel", "smooth"], ["unknown kernel 'smooth'", "rbf"]),
    "a kernel that is no expression": (["--kernel", "rbf +"], ["cannot read the kernel"]),
    "an unknown method": (["--method", "nuts"], ["unknown method 'nuts'", "fsghmc"]),
    "an unknown task": (["--task", "ranking"], ["unknown task 'ranking'"]),
    "a share above one": (["--holdout", "20"], ["holdout must be the share"]),
    "a share that leaves nothing": (["--holdout", "0.99"], ["leaves 0 of 30 rows to fit"]),
    "layers that are no numbers": (["--hidden", "50,many"], ["'50,many'"]),
    "too many classes": (["--task", "classification"], ["30 classes in 30 rows"]),
    "an id with the name of an answer": (["--id", "mean"], ["'mean'"]),
    "nothing to resume": (["--resume"], ["nothing to resume"]),
    "a separator of two characters": (["--separator", "||"], ["one character"]),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_options_that_do_not_fit(name, tmp_path):
    options, words = OPTIONS[name]
    refused(fit(tmp_path, GOOD, *options), *words)


def test_places_that_do_not_fit(tmp_path):
    model = str(tmp_path / "model")
    refused(CliRunner().invoke(app, ["fit", "nowhere.csv", "--target", "y", "--out", model]), "there is no file")
    refused(CliRunner().invoke(app, ["fit", str(tmp_path), "--target", "y", "--out", model]), "is a folder")
    data = put(tmp_path, GOOD)
    refused(CliRunner().invoke(app, ["fit", data, "--target", "y", "--out", data]), "is a file")
    refused(fit(tmp_path, b"PAR1 and no more", name="cut.parquet"), "not a complete Parquet file")


NEW = {
    "an unseen category": ("x,colour\n1,green\n", ["'green' in row 1", "'blue', 'red'"]),
    "a column that is missing": ("x\n1\n", ["no column 'colour'"]),
    "a word for a number": ("x,colour\nmany,red\n1,red\n2,red\n", ["'many' in row 1"]),
    "an infinite number": ("x,colour\ninf,red\n", ["infinite"]),
    "no rows": ("x,colour\n", ["no rows"]),
}


@pytest.mark.parametrize("name", NEW)
def test_new_rows_that_cannot_be_predicted(name, tmp_path, model):
    content, words = NEW[name]
    out = tmp_path / "predictions.csv"
    refused(CliRunner().invoke(app, ["predict", str(model), put(tmp_path, content), "--out", str(out)]), *words)
    assert not out.exists()


def test_a_coverage_or_a_target_that_does_not_fit(tmp_path, model):
    data, out = put(tmp_path, "x,colour\n1,red\n"), str(tmp_path / "p.csv")
    refused(CliRunner().invoke(app, ["predict", str(model), data, "--out", out, "--coverage", "90"]), "0.9")
    refused(CliRunner().invoke(app, ["predict", str(model), data, "--out", str(tmp_path)]), "is a folder")
    kept = str(model / "model.json")
    refused(CliRunner().invoke(app, ["predict", str(model), data, "--out", kept]), "in the folder of the model")
    refused(CliRunner().invoke(app, ["evaluate", str(model), data]), "no column 'y'")


def cut(folder):
    path = next(folder.glob("arrays-*.npz"))
    path.write_bytes(path.read_bytes()[:-100])


def flip(folder):
    path = next(folder.glob("arrays-*.npz"))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


def rewrite(folder, **changes):
    path = folder / "model.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


FOLDERS = {
    "arrays cut short": (cut, ["truncated or altered"]),
    "arrays altered": (flip, ["truncated or altered"]),
    "arrays missing": (lambda folder: next(folder.glob("arrays-*.npz")).unlink(), ["not copied whole"]),
    "no model.json": (lambda folder: (folder / "model.json").unlink(), ["model.json is missing"]),
    "model.json cut short": (lambda folder: (folder / "model.json").write_text('{"schema": "fs'), ["truncated"]),
    "model.json of something else": (
        lambda folder: (folder / "model.json").write_text("[1, 2]"),
        ["does not describe"],
    ),
    "a newer version": (lambda folder: rewrite(folder, version=99), ["newer fsgmcmc"]),
    "an earlier version": (lambda folder: rewrite(folder, version=1), ["earlier fsgmcmc"]),
    "no version": (lambda folder: rewrite(folder, version=None), ["no version"]),
    "an entry altered": (lambda folder: rewrite(folder, params=None), ["was altered"]),
    "the table altered": (lambda folder: rewrite(folder, table={"columns": 3}), ["was altered"]),
    "an unknown task": (lambda folder: rewrite(folder, task="ranking"), ["was altered"]),
}


@pytest.mark.parametrize("name", FOLDERS)
@pytest.mark.parametrize("command", ["info", "predict"])
def test_a_model_folder_that_is_damaged(name, command, tmp_path, model):
    damage, words = FOLDERS[name]
    folder = tmp_path / "model"
    shutil.copytree(model, folder)
    damage(folder)
    more = [put(tmp_path, "x,colour\n1,red\n"), "--out", str(tmp_path / "p.csv")] if command == "predict" else []
    refused(CliRunner().invoke(app, [command, str(folder), *more]), *words)


def test_a_folder_that_is_no_model(tmp_path):
    refused(CliRunner().invoke(app, ["info", str(tmp_path / "nowhere")]), "no model folder")
    refused(CliRunner().invoke(app, ["info", str(tmp_path)]), "contains no model")


@pytest.mark.slow
def test_a_model_kept_from_python_has_no_table(tmp_path):
    x = np.arange(10.0)[:, None]
    save_model(FunctionalBNNRegressor(random_state=0, **QUICK).fit(x, x[:, 0]), tmp_path)
    refused(CliRunner().invoke(app, ["info", str(tmp_path)]), "load_model")


def test_extra_entries_cannot_replace_those_of_the_model(tmp_path, model):
    estimator = load_model(model)[0]
    with pytest.raises(ValueError, match="extra has entries of the model itself: kernel, task"):
        save_model(estimator, tmp_path / "model", extra={"task": "regression", "kernel": "matern32", "note": 1})
    assert not (tmp_path / "model").exists()
    save_model(estimator, tmp_path / "model", extra={"note": 1})
    assert load_model(tmp_path / "model")[1]["note"] == 1

"""The documentation tells the truth: what it shows can be run and gives what it says."""

import doctest
import importlib
import io
import pkgutil
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import fsgmcmc

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PYTHON_BLOCK = re.compile(r"^(?P<indent> *)```python\b[^\n]*\n(?P<code>.*?)^(?P=indent)```", re.DOTALL | re.MULTILINE)
DOCTEST_FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def python_blocks(markdown: str) -> Iterator[str]:
    """The Python blocks, each behind as many empty lines as put it at its line of the document."""
    for block in PYTHON_BLOCK.finditer(markdown):
        lines_above = markdown.count("\n", 0, block.start("code"))
        yield "\n" * lines_above + textwrap.dedent(block["code"])


def module_names() -> list[str]:
    def refuse(name: str) -> None:
        raise ImportError(f"{name} cannot be imported, so its examples cannot be run") from sys.exception()

    found = pkgutil.walk_packages(fsgmcmc.__path__, prefix="fsgmcmc.", onerror=refuse)
    # Importing __main__ would start the command line.
    return ["fsgmcmc", *sorted(module.name for module in found if not module.name.endswith("__main__"))]


def doctests(module_name: str) -> list[doctest.DocTest]:
    return doctest.DocTestFinder().find(importlib.import_module(module_name), module_name)


# Pages of complete examples, which test_examples.py runs and compares.
EXAMPLES = {"own-likelihood.md", "own-network.md", "own-sampler.md"}
# Modules whose examples fit or compile a whole model; other tests do the same in the everyday suite.
SLOW_MODULES = {
    "fsgmcmc.estimators.classifier",
    "fsgmcmc.estimators.regressor",
    "fsgmcmc.networks.convolutional",
    "fsgmcmc.variational.fbnn",
    "fsgmcmc.variational.ifbnn",
    "fsgmcmc.variational.wasserstein",
}
PAGES_WITH_CODE = [
    page for page in PAGES if page.name not in EXAMPLES and any(python_blocks(page.read_text(encoding="utf-8")))
]


# `make wheel` runs the README's first example as well.
SLOW_PAGES = {
    "README.md",
    "bandits.md",
    "convergence.md",
    "how-to.md",
    "images.md",
    "kernels.md",
    "tutorial.md",
    "variational.md",
}


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.name, marks=pytest.mark.slow if page.name in SLOW_PAGES else ())
        for page in PAGES_WITH_CODE
    ],
)
def test_pages_run_from_top_to_bottom(page, tmp_path, monkeypatch):
    # A registered module, because dataclasses look up the module in which they are defined.
    module = ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)
    monkeypatch.chdir(tmp_path)
    for block in python_blocks(page.read_text(encoding="utf-8")):
        exec(compile(block, str(page), "exec"), module.__dict__)


def test_the_readme_shows_code():
    assert ROOT / "README.md" in PAGES_WITH_CODE


@pytest.mark.parametrize(
    "module_name",
    [pytest.param(name, marks=pytest.mark.slow if name in SLOW_MODULES else ()) for name in module_names()],
)
def test_examples_give_what_they_show(module_name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runner = doctest.DocTestRunner(verbose=False, optionflags=DOCTEST_FLAGS)
    report = io.StringIO()
    for examples in doctests(module_name):
        runner.run(examples, out=report.write)
    assert runner.failures == 0, report.getvalue()


def test_the_package_has_examples():
    assert any(examples.examples for name in module_names() for examples in doctests(name))

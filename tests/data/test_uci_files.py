"""Data sets: what is read is what is on disk, what is wrong is named, what is fetched is whole."""

import hashlib
import os
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pooch
import pytest
from typer.testing import CliRunner

from fsgmcmc import data
from fsgmcmc.cli import app

ROWS, FEATURES = 12, 3
SHAPES = {
    "yacht": (308, 6),
    "boston": (506, 13),
    "concrete": (1030, 8),
    "energy": (768, 8),
    "wine": (1599, 11),
    "kin8nm": (8192, 8),
    "protein": (45730, 9),
}
REAL = os.environ.get("FSGMCMC_DATA")


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch, tmp_path):
    """Neither the user's data nor a proxy takes part."""
    monkeypatch.delenv("FSGMCMC_DATA", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(pooch, "os_cache", lambda name: tmp_path / "cache" / name)


def write_set(root: Path, directory: str, splits: int = 2) -> Path:
    """A set whose target is the first column; split k tests rows k and k + 1. Returns its data folder."""
    base = root / "UCI_Datasets" / directory / "data"
    base.mkdir(parents=True)
    np.savetxt(base / "data.txt", table_values())
    np.savetxt(base / "index_features.txt", [2, 1, 3])
    np.savetxt(base / "index_target.txt", [0])
    for k in range(splits):
        test = [k + 1, k]
        np.savetxt(base / f"index_test_{k}.txt", test)
        np.savetxt(base / f"index_train_{k}.txt", np.setdiff1d(np.arange(ROWS), test)[::-1], fmt="%d")
    return base


def table_values() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(ROWS, FEATURES + 1))


def declare_public(monkeypatch, base: Path, name: str = "yacht") -> None:
    monkeypatch.setitem(data.SHA256, name, hashlib.sha256((base / "data.txt").read_bytes()).hexdigest())


def contents(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


# Reading


def test_columns_and_rows_are_those_of_the_index_files_in_their_order(tmp_path):
    write_set(tmp_path, "toy", splits=11)
    table = data.load_uci("toy", tmp_path)
    np.testing.assert_array_equal(table.x, table_values()[:, [2, 1, 3]])
    np.testing.assert_array_equal(table.y, table_values()[:, 0])
    assert table.name == "toy"
    # In the order of k, not of the alphabet.
    assert [test.tolist() for _, test in table.splits] == [[k + 1, k] for k in range(11)]
    assert table.splits[1][0].tolist() == [11, 10, 9, 8, 7, 6, 5, 4, 3, 0]


def test_a_set_without_splits_is_read(tmp_path):
    write_set(tmp_path, "toy", splits=0)
    assert data.load_uci("toy", tmp_path).splits == ()


def test_short_name_and_folder_are_the_same_set(tmp_path, monkeypatch):
    declare_public(monkeypatch, write_set(tmp_path, "wine-quality-red"), "wine")
    by_short, by_folder = data.load_uci("wine", tmp_path), data.load_uci("wine-quality-red", tmp_path)
    assert by_short.name == by_folder.name == "wine"
    np.testing.assert_array_equal(by_short.x, by_folder.x)


def test_public_sets_are_listed_first(tmp_path):
    for directory in ("energy", "bostonHousing", "a-set"):
        write_set(tmp_path, directory)
    (tmp_path / "UCI_Datasets" / "no-set").mkdir()
    assert data.available(tmp_path) == ["boston", "energy", "a-set"]


def test_other_data_under_a_public_name_is_read_with_a_warning(tmp_path):
    write_set(tmp_path, "yacht")
    with pytest.warns(UserWarning, match="data.txt is not the public yacht set") as caught:
        table = data.load_uci("yacht", tmp_path)
    assert len(caught) == 1
    assert len(table.x) == ROWS
    assert set(data.SHA256) == set(data.UCI_NAMES) == set(data.PUBLIC_SPLITS)


def test_the_argument_comes_before_the_environment_and_that_before_the_cache(tmp_path, monkeypatch):
    places = [tmp_path / "argument", tmp_path / "environment", tmp_path / "cache" / "fsgmcmc"]
    for place in places:
        (place / "UCI_Datasets").mkdir(parents=True)
    assert data.folder() == places[2]
    monkeypatch.setenv("FSGMCMC_DATA", str(places[1]))
    assert data.folder() == places[1]
    assert data.folder(places[0]) == data.folder(str(places[0] / "UCI_Datasets")) == places[0]


def test_the_folder_may_be_named_from_inside(tmp_path, monkeypatch):
    (tmp_path / "UCI_Datasets").mkdir()
    monkeypatch.chdir(tmp_path / "UCI_Datasets")
    assert data.folder(".") == tmp_path


@pytest.mark.parametrize("where", ["argument", "environment", "cache"])
def test_a_missing_folder_is_told_with_the_remedies(where, tmp_path, monkeypatch):
    if where != "cache":
        # A place that was named is not silently replaced by another.
        (tmp_path / "cache" / "fsgmcmc" / "UCI_Datasets").mkdir(parents=True)
    if where == "environment":
        monkeypatch.setenv("FSGMCMC_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(data.DataNotFoundError, match=r"fsgmcmc data fetch uci.*--data DIR.*FSGMCMC_DATA"):
        data.folder(tmp_path / "nowhere" if where == "argument" else None)


def test_an_unknown_name_is_told_what_there_is(tmp_path):
    write_set(tmp_path, "wine-quality-red")
    write_set(tmp_path, "toy")
    with pytest.raises(data.DataNotFoundError, match=r"no set 'yatch' in .*, which has wine, toy"):
        data.load_uci("yatch", tmp_path)
    with pytest.raises(data.DataNotFoundError, match="no set"):
        data.load_uci("../UCI_Datasets/toy", tmp_path)


@pytest.mark.parametrize(
    "file", ["data.txt", "index_features.txt", "index_target.txt", "index_train_0.txt", "index_test_1.txt"]
)
def test_a_missing_an_empty_and_a_garbled_file_are_named(file, tmp_path):
    path = write_set(tmp_path, "toy") / file
    path.write_text("<html>404</html>")
    with pytest.raises(ValueError, match=rf"{file} is not a table of numbers, could not convert"):
        data.load_uci("toy", tmp_path)
    path.write_bytes(b"\x1f\x8b\xff\x00")
    with pytest.raises(ValueError, match=rf"{file} is not a table of numbers"):
        data.load_uci("toy", tmp_path)
    path.write_text("\n \n")
    with pytest.raises(ValueError, match=rf"{file} is not a table of numbers, it is empty"):
        data.load_uci("toy", tmp_path)
    path.unlink()
    with pytest.raises(data.DataNotFoundError, match=rf"{file} is missing"):
        data.load_uci("toy", tmp_path)


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("data.txt", "1 2 3 4\n1 2 3 4\n1 2", "data.txt is not a table of numbers, .* at row 3"),
        ("data.txt", "1 2 3 4\n" * 5, "index_train_0.txt has 11, but data.txt has rows 0 to 4"),
        ("data.txt", "1 2 3 4\n" * 11 + "1 nan 3 4\n", r"data.txt has 1 value\(s\) that are not finite"),
        ("data.txt", "1 2 3 4\n" * 11 + "1 2 inf 4\n", r"data.txt has 1 value\(s\) that are not finite"),
        ("index_features.txt", "1 2 4", "index_features.txt has 4, but data.txt has columns 0 to 3"),
        ("index_features.txt", "1 2 2", "index_features.txt has duplicate columns"),
        ("index_features.txt", "0 1 2", "index_target.txt must name one column that is not a feature"),
        ("index_target.txt", "0 1", "index_target.txt must name one column"),
        ("index_test_0.txt", "-1", "index_test_0.txt has -1, but data.txt has rows 0 to 11"),
        ("index_test_0.txt", "0.5", "index_test_0.txt has 0.5"),
        ("index_test_0.txt", "0 0 1", "index_test_0.txt has duplicate rows"),
        ("index_test_0.txt", "0 1 7", r"index_train_0.txt and index_test_0.txt overlap in 1 row\(s\), the first 7"),
    ],
)
def test_wrong_numbers_are_named_with_their_file(file, text, message, tmp_path):
    (write_set(tmp_path, "toy") / file).write_text(text)
    with pytest.raises(ValueError, match=message):
        data.load_uci("toy", tmp_path)


def test_a_split_cut_short_is_noticed_in_a_public_set_only(tmp_path, monkeypatch):
    for directory in ("yacht", "toy"):
        base = write_set(tmp_path, directory)
        (base / "index_train_1.txt").write_text("11 10 9")
    declare_public(monkeypatch, base)
    assert [len(train) for train, _ in data.load_uci("toy", tmp_path).splits] == [10, 3]
    with pytest.raises(ValueError, match=r"index_train_1.txt and index_test_1.txt leave out 7 of 12 rows"):
        data.load_uci("yacht", tmp_path)


@pytest.mark.skipif(not REAL, reason="FSGMCMC_DATA names no folder with the public sets")
@pytest.mark.parametrize("name", SHAPES)
def test_the_public_sets_are_the_public_ones(name):
    table = data.load_uci(name, REAL)  # a warning, were the checksum another, would be an error
    assert table.x.shape == SHAPES[name]
    assert len(table.splits) >= 5
    for train, test in table.splits:
        np.testing.assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(len(table.y)))
        assert len(test) == pytest.approx(0.1 * len(table.y), abs=1)


# Splitting and scaling


@pytest.mark.parametrize(("rows", "fraction", "tested"), [(2, 0.01, 1), (2, 0.99, 1), (3, 0.99, 2), (100, 0.25, 25)])
def test_a_random_split_shares_out_all_rows(rows, fraction, tested):
    train, test = data.random_split(rows, seed=1, test_fraction=fraction)
    assert len(test) == tested
    assert sorted([*train, *test]) == list(range(rows))


def test_a_random_split_follows_its_seed_and_is_shuffled():
    first, again, other = (data.random_split(50, seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first[0], again[0])
    assert set(first[1]) != set(other[1])
    assert first[0].tolist() != sorted(first[0])


def test_a_split_that_cannot_be_made_is_refused():
    with pytest.raises(ValueError, match="rows must be a whole number of at least 2, got 1"):
        data.random_split(1, seed=0)
    with pytest.raises(ValueError, match="test_fraction must lie between 0 and 1"):
        data.random_split(10, seed=0, test_fraction=1.0)


def test_scaling_knows_the_training_part_only():
    rng = np.random.default_rng(0)
    x, y = rng.normal(5, 3, (40, 2)), rng.normal(-2, 7, 40)
    scale = data.Standardiser.fit(x, y)
    np.testing.assert_allclose(scale.x(x).mean(0), 0, atol=1e-6)
    np.testing.assert_allclose(scale.x(x).std(0), 1, rtol=1e-6)
    np.testing.assert_allclose([scale.y(y).mean(), scale.y(y).std()], [0, 1], atol=1e-12)
    # New values are measured by the training part, however they are distributed.
    np.testing.assert_allclose(scale.x(x[:1] + 100), (x[:1] + 100 - x.mean(0)) / x.std(0), rtol=1e-6)
    np.testing.assert_allclose(scale.y(y[:3] + 100) * scale.y_std + scale.y_mean, y[:3] + 100)
    assert (scale.x(x).dtype, scale.y(y).dtype) == (np.float32, np.float64)


def test_a_constant_is_centred_and_not_blown_up():
    # Seven times 0.1 has a standard deviation of 1e-17 in floating point.
    scale = data.Standardiser.fit(np.full((7, 1), 0.1), np.full(7, 0.1))
    np.testing.assert_allclose(scale.x([[1.1]]), 1, rtol=1e-6)
    np.testing.assert_allclose(scale.y([1.1]), 1)


def test_scaling_refuses_what_does_not_fit():
    with pytest.raises(ValueError, match="x has 3 rows but y has 2"):
        data.Standardiser.fit(np.ones((3, 2)), np.ones(2))
    scale = data.Standardiser.fit(np.ones((3, 2)), np.ones(3))
    with pytest.raises(ValueError, match="x has 1 columns, the training part had 2"):
        scale.x(np.ones((5, 1)))


# Fetching


class Handler(SimpleHTTPRequestHandler):
    def do_GET(self):
        self.server.requested.append(self.path)
        super().do_GET()

    def log_message(self, *args):
        pass


@pytest.fixture
def server(tmp_path, monkeypatch):
    """A mirror of a `yacht` with two splits."""
    base = write_set(tmp_path / "mirror", "yacht")
    declare_public(monkeypatch, base)
    handler = partial(Handler, directory=tmp_path / "mirror" / "UCI_Datasets")
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as mirror:
        mirror.requested, mirror.base = [], base
        mirror.url = f"http://127.0.0.1:{mirror.server_port}"
        thread = threading.Thread(target=partial(mirror.serve_forever, poll_interval=0.01))
        thread.start()
        yield mirror
        mirror.shutdown()
        thread.join()


def fetch(server, destination: Path, splits: int = 2) -> Path:
    return data.fetch_uci(destination, server.url, names=["yacht"], splits=splits, progress=False)


def test_a_fetched_set_is_the_mirrored_one_and_is_fetched_once(server, tmp_path):
    home = tmp_path / "home"
    assert fetch(server, home) == home
    assert contents(home) == contents(tmp_path / "mirror")
    assert len(server.requested) == len(contents(home)) == 7
    fetch(server, home / "UCI_Datasets")
    assert len(server.requested) == 7
    assert len(data.load_uci("yacht", home).splits) == 2


def test_only_what_lacks_is_fetched(server, tmp_path):
    fetch(server, tmp_path / "home", splits=1)
    server.requested.clear()
    fetch(server, tmp_path / "home", splits=2)
    assert server.requested == ["/yacht/data/index_train_1.txt", "/yacht/data/index_test_1.txt"]


@pytest.mark.parametrize("file", ["data.txt", "index_train_1.txt"])
def test_a_file_cut_short_is_replaced(file, server, tmp_path):
    fetch(server, tmp_path / "home")
    damaged = tmp_path / "home" / "UCI_Datasets" / "yacht" / "data" / file
    lines = damaged.read_text().splitlines(keepends=True)
    damaged.write_text("".join(lines[:-1]))
    fetch(server, tmp_path / "home")
    assert contents(tmp_path / "home") == contents(tmp_path / "mirror")


def spoil(server, how: str) -> None:
    if how == "404":
        (server.base / "index_test_1.txt").unlink()
    elif how == "checksum":
        (server.base / "data.txt").write_text("1 2 3 4\n" * ROWS)
    elif how == "page":
        (server.base / "index_test_1.txt").write_text("<html>please log in</html>")
    else:
        (server.base / "index_train_1.txt").write_text("3 4 5")


SPOILT = {
    "404": "404 .*index_test_1.txt",
    "checksum": "data.txt does not have the SHA-256",
    "page": "yacht/data/index_test_1.txt is not a table of numbers",
    "cut short": "leave out 7 of 12 rows",
}


@pytest.mark.parametrize("how", SPOILT)
def test_a_failed_fetch_leaves_nothing_and_tells_the_remedy(how, server, tmp_path):
    spoil(server, how)
    with pytest.raises(data.DownloadError, match=f"could not fetch yacht from http.*{SPOILT[how]}.*by hand") as caught:
        fetch(server, tmp_path / "home")
    assert str(tmp_path / "home" / "UCI_Datasets" / "yacht" / "data") in str(caught.value)
    assert ".fetch-" not in str(caught.value)
    assert list((tmp_path / "home").rglob("*")) == []


def test_a_failed_fetch_leaves_what_was_there(server, tmp_path):
    fetch(server, tmp_path / "home", splits=1)
    before = contents(tmp_path / "home")
    spoil(server, "page")
    with pytest.raises(data.DownloadError, match="index_test_1"):
        fetch(server, tmp_path / "home")
    assert contents(tmp_path / "home") == before


def test_a_dead_server_is_told_in_one_sentence(tmp_path):
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as closed:
        port = closed.server_port
    with pytest.raises(data.DownloadError, match=r"^could not fetch boston from [^ ]+: no connection; [^;]+ by hand$"):
        data.fetch_uci(tmp_path / "home", f"http://127.0.0.1:{port}", names=["boston"], progress=False)
    assert list((tmp_path / "home").rglob("*")) == []


def test_fetch_refuses_names_and_counts_that_are_none(tmp_path):
    with pytest.raises(ValueError, match="unknown public set 'iris'; choose from yacht, boston"):
        data.fetch_uci(tmp_path, names=["iris"])
    with pytest.raises(ValueError, match="splits must be a whole number of at least 0"):
        data.fetch_uci(tmp_path, splits=-1)


# The command line


def test_list_shows_sizes(tmp_path):
    write_set(tmp_path, "toy")
    result = CliRunner().invoke(app, ["data", "list", "--data", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert result.output.split()[:4] == ["name", "rows", "features", "splits"]
    assert result.output.split()[-4:] == ["toy", "12", "3", "2"]


def test_list_refuses_in_one_sentence(tmp_path):
    result = CliRunner().invoke(app, ["data", "list", "--data", str(tmp_path)])
    assert result.exit_code == 2
    assert result.stderr.startswith(f"there is no UCI_Datasets in {tmp_path}")
    assert result.stdout == ""


def test_fetch_command_fetches_and_refuses(server, tmp_path, monkeypatch):
    fetch_from = data.fetch_uci
    monkeypatch.setattr(data, "fetch_uci", partial(fetch_from, base_url=server.url, names=["yacht"], splits=2))
    command = ["data", "fetch", "uci", "--data", str(tmp_path / "home")]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    assert contents(tmp_path / "home") == contents(tmp_path / "mirror")
    (tmp_path / "home" / "UCI_Datasets" / "yacht" / "data" / "data.txt").unlink()
    spoil(server, "checksum")
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 2
    assert result.stderr.startswith("could not fetch yacht")

"""Files as tables: what is understood without being told."""

import pandas as pd
import pytest

from fsgmcmc.tabular.reading import TableError, read_table, write_table


def written(tmp_path, text, name="table.csv"):
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


@pytest.mark.parametrize(
    "text",
    [
        "a,b\n1,x\n2.5,y\n",
        "a;b\r\n1;x\r\n2,5;y\r\n",
        "\ufeffa\tb\n1\tx\n2.5\ty",
        "a | b\n1 | x\n\n2.5 | y\n",
        'a,b\n"1","x"\n" 2.5 ",y\n',
    ],
    ids=["comma", "semicolon and decimal comma", "tab and byte-order mark", "bar, blanks, empty line", "quotes"],
)
def test_delimiters_decimals_and_quotes_are_found(tmp_path, text):
    frame = read_table(written(tmp_path, text))
    assert frame["a"].tolist() == [1.0, 2.5]
    assert frame["b"].tolist() == ["x", "y"]


def test_missing_values_have_many_names(tmp_path):
    frame = read_table(written(tmp_path, "a,b\n1,x\nna,\n?,NULL\n-,y\n"))
    assert frame["a"].isna().tolist() == [False, True, True, True]
    assert frame["b"].isna().tolist() == [False, True, True, False]


def test_row_numbers_without_a_name_are_left_out(tmp_path):
    assert read_table(written(tmp_path, ",a\n0,5\n1,6\n")).columns.tolist() == ["a"]


def test_names_of_rows_and_lines_within_quotes_stay_as_they_are(tmp_path):
    frame = read_table(written(tmp_path, 'id,a\n007,"x\ny"\n12,b\n'), names="id")
    assert frame["id"].tolist() == ["007", "12"]
    assert frame["a"].tolist() == ["x\ny", "b"]


def test_commas_in_numbers_are_decimal_or_refused(tmp_path):
    with pytest.raises(TableError, match=r"'1,234'.*without commas between thousands"):
        read_table(written(tmp_path, "a\tb\n1,234\t1\n950\t2\n"))
    assert read_table(written(tmp_path, "a;b\nred, blue;1\n1,5;2\n"))["a"].tolist() == ["red, blue", "1,5"]


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_what_is_written_is_read(tmp_path, name):
    frame = pd.DataFrame({"row": [1.0, 2.0], "label": ["a, b", 'c "d"']})
    write_table(frame, tmp_path / name)
    pd.testing.assert_frame_equal(read_table(tmp_path / name), frame, check_dtype=False)


def test_a_line_that_does_not_fit_is_named(tmp_path):
    with pytest.raises(TableError, match=r"line 3 of .* has 3 values where the header has 2"):
        read_table(written(tmp_path, "a,b\n1,2\n1,2,3\n"))

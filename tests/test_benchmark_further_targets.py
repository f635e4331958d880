"""benchmarks/further_targets.py: which columns become targets; a target is no attribute."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("matplotlib")
pytest.importorskip("tqdm")
# Benchmarks are scripts, not part of the package.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

import few_shot_tables
from few_shot_tables import Table
from further_targets import as_classes, column_as_target, further_targets, intervals


def table_of(n_rows=200, name="toy", seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"number": rng.normal(size=n_rows), "count": rng.integers(0, 3, n_rows)})
    X["category"] = pd.Categorical(rng.choice(["red", "green", "blue"], n_rows))
    X["rare"] = np.where(np.arange(n_rows) < 5, "yes", "no")
    X.loc[:9, "category"] = np.nan
    return Table(name, X, rng.integers(0, 2, n_rows), "sha")


def test_columns_and_cut_targets_take_the_place_of_the_target():
    regression = table_of(name="prices")._replace(y=np.random.default_rng(1).normal(size=200))
    found = further_targets([table_of()], [regression], n_columns=4)
    assert {t.name for t in found} == {
        *("prices/2", "prices/3", "prices/5"),
        *("toy/number", "toy/count", "toy/category"),  # "rare" has only one class with enough rows
    }
    for table in found:
        assert len(table.X) == len(table.y)
        assert np.bincount(table.y).min() >= 30 and table.sha256 == "sha"
        column = table.name.split("/")[1]
        assert (column not in table.X) if table.name.startswith("toy") else table.X.shape[1] == 4
    again = further_targets([table_of()], [regression], n_columns=4)
    assert all(np.array_equal(a.y, b.y) for a, b in zip(found, again, strict=True))
    assert len(further_targets([table_of()], [])) == 2
    assert further_targets([table_of(n_rows=50)], []) == []  # too few rows per class


def test_rows_without_a_class_are_left_out():
    table = table_of()
    y = as_classes(table.X["category"], 2)
    assert (y[:10] == -1).all() and set(y[10:]) == {0, 1, 2}
    part = column_as_target(table, "category", y)
    assert len(part.X) == 190 and part.X.index.tolist() == list(range(190))
    names = np.array(["blue", "green", "red"])[part.y]
    np.testing.assert_array_equal(names, table.X["category"][10:])


def test_a_column_of_one_value_is_no_target():
    assert as_classes(pd.Series(["a"] * 90), 2) is None
    assert as_classes(pd.Series([np.nan] * 90), 2) is None
    assert as_classes(pd.Series([1.0] * 80 + [2.0] * 20), 2) is None
    assert as_classes(pd.Series([1.0] * 80 + [2.0] * 30), 2).max() == 1


@given(st.integers(2, 5), st.integers(0, 2**32 - 1))
def test_intervals_hold_as_many_values_each(n_classes, seed):
    values = np.random.default_rng(seed).permutation(60.0 + np.arange(60))
    codes = intervals(values, n_classes)
    assert np.bincount(codes).tolist() == pytest.approx([60 / n_classes] * n_classes, abs=1)
    order = np.argsort(values)
    assert (np.diff(codes[order]) >= 0).all()


def test_the_command_scores_them(tmp_path, tables_dir):
    pytest.importorskip("pyarrow")
    few_shot_tables.main(
        ["--folder", str(tables_dir), "--split", "valid", "--targets", "further", "--quick",
         "--shots", "1", "--weights", "--peers", "1-NN", "--output", str(tmp_path)]
    )  # fmt: skip
    results = pd.read_csv(tmp_path / "valid_further.csv", dtype={"dataset": str})
    assert len(results) == 6 * 3 and results["dataset"].str.contains("/").all()

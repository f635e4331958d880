"""Collections: folders of tables, filters, and splits that keep families together."""

import os
import sys
import warnings
from datetime import date
from pathlib import PurePath

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_iris
from sklearn.dummy import DummyClassifier

from sklearn_meta.commands.arguments import read_recipe
from sklearn_meta.evaluation import evaluate, peers
from sklearn_meta.tasks import Dataset, Folder, as_source, select, split
from sklearn_meta.tasks.collections import Subset
from sklearn_meta.tasks.images import load_cifar_fs, load_mini_imagenet
from sklearn_meta.tasks.omniglot import load_omniglot
from sklearn_meta.tasks.pairs import as_dataset
from sklearn_meta.tasks.reviews import load_reviews, rows_by_domain
from sklearn_meta.tasks.tagging import load_conll_folder, load_tagging, read_conll
from sklearn_meta.tasks.word_vectors import read_word_vectors

INDEX = pd.DataFrame(
    [
        ("one", "train", "classification", "twins"),
        ("two", "train", "classification", "twins"),
        ("kept", "train", "classification", "kept"),
        ("later", "test", "classification", "later"),
        ("number", "train", "regression", "number"),
    ],
    columns=["name", "split", "task", "family"],
)


def frame_of(n_rows=9, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.standard_normal((n_rows, 2)), columns=["a", "b"])
    frame["c"] = np.resize(list("xyz"), n_rows)
    frame["target"] = np.repeat(["no", "yes"], [4, n_rows - 4])
    return frame


@pytest.fixture
def indexed(tmp_path):
    INDEX.to_csv(tmp_path / "index.csv", index=False)
    for seed, (name, task) in enumerate(zip(INDEX["name"], INDEX["task"])):
        frame = frame_of(seed=seed)
        if task == "regression":
            frame["target"] = 1e3 + frame["a"]
        frame.to_parquet(tmp_path / f"{name}.parquet")
    return tmp_path


def test_a_folder_is_read_by_its_index(indexed):
    assert list(Folder(indexed)) == list(INDEX["name"])
    train = Folder(str(indexed), split="train", task="classification")
    assert list(train) == ["one", "two", "kept"] and len(train) == 3
    assert train.families == {"one": "twins", "two": "twins", "kept": "kept"}
    X, y, metadata = train["two"]
    pd.testing.assert_frame_equal(X, frame_of(seed=1)[["a", "b", "c"]], check_dtype=False)
    assert list(y) == ["no"] * 4 + ["yes"] * 5
    assert metadata["family"] == "twins" and metadata["split"] == "train"
    number = as_source(Folder(indexed, task="regression"))["number"]
    np.testing.assert_array_equal(number.y, np.float32(1e3 + frame_of(seed=4)["a"]))
    with pytest.raises(KeyError):
        train["later"]
    (indexed / "one.parquet").unlink()
    with pytest.raises(FileNotFoundError, match="'one': no file of that name"):
        train = Folder(indexed, split="train")
        train["one"]
    assert "no file of that name" in select(train).rejected["one"]


def test_an_index_may_have_blanks_after_its_commas(indexed):
    index = indexed / "index.csv"
    folder = Folder(indexed)
    known, families = [folder[name][2] for name in folder], folder.families
    index.write_text(index.read_text().replace(",", ", "))
    assert list(Folder(indexed)) == list(INDEX["name"]) and Folder(indexed).families == families
    assert [Folder(indexed)[name][2] for name in folder] == known


@pytest.mark.filterwarnings("ignore:Length of header or names does not match")
def test_lines_of_an_index_may_end_in_a_comma(indexed):
    names, lines = (indexed / "index.csv").read_text().split("\n", 1)
    (indexed / "index.csv").write_text(names + "\n" + lines.replace("\n", ",\n"))
    assert list(Folder(indexed, split="train", task="regression")) == ["number"]


ARFF = """@relation t
@attribute a numeric
@attribute c {x,y,'z z'}
@attribute target {no,yes}
@data
1.5,x,no
?,'z z',yes
-2,?,yes
3,y,no
"""


def test_tables_are_in_order_of_their_names_on_windows_too(tmp_path, monkeypatch):
    """Paths of Windows are sorted without regard to capitals; the order decides what is drawn."""
    for name in ("b", "C", "a"):
        frame_of().to_csv(tmp_path / f"{name}.csv", index=False)
    monkeypatch.setattr(PurePath, "__lt__", lambda a, b: str(a).lower() < str(b).lower())
    assert list(Folder(tmp_path)) == ["C", "a", "b"]


def test_a_folder_without_index_takes_every_table(tmp_path):
    (tmp_path / "nominal.arff").write_text(ARFF, encoding="utf-8-sig")  # with a byte order mark
    frame_of().to_csv(tmp_path / "comma.csv", index=False)
    frame = frame_of()
    frame.loc[2, "target"] = None  # a row without a target
    frame.to_parquet(tmp_path / "column.parquet")
    (tmp_path / "README.txt").write_text("no table")
    folder = Folder(tmp_path)
    assert list(folder) == ["column", "comma", "nominal"]
    X, y, _ = folder["nominal"]
    np.testing.assert_array_equal(X["a"], [1.5, np.nan, -2, 3])
    assert X["c"].tolist()[:2] == ["x", "z z"] and X["c"].isna().tolist() == [0, 0, 1, 0]
    assert y.tolist() == ["no", "yes", "yes", "no"]
    sizes = {name: dataset.X.shape for name, dataset in as_source(folder).items()}
    assert sizes == {"column": (8, 5), "comma": (9, 5), "nominal": (4, 4)}


def test_a_torn_file_is_a_named_error(tmp_path):
    frame_of().to_parquet(tmp_path / "torn.parquet")
    whole = (tmp_path / "torn.parquet").read_bytes()
    (tmp_path / "torn.parquet").write_bytes(whole[: len(whole) // 2])
    pd.DataFrame({"target": [0, 1]}).to_csv(tmp_path / "narrow.csv", index=False)
    folder = Folder(tmp_path)
    with pytest.raises(ValueError, match="'torn': cannot read .*torn.parquet"):
        folder["torn"]
    with pytest.raises(ValueError, match="'narrow': .*no column besides the target"):
        folder["narrow"]
    assert set(select(folder).rejected) == {"torn", "narrow"}


@pytest.mark.parametrize(
    "files, settings, error, message",
    [
        (None, {}, FileNotFoundError, "no folder .*give a folder"),
        ([], {}, FileNotFoundError, "No tables in .*parquet"),
        (["a.csv"], {"split": "train"}, ValueError, "No index.csv in .* to select by split"),
        (["a.csv", "a.parquet"], {}, ValueError, "two tables 'a'"),
        (
            ["index.csv", "one.csv"],
            {"split": "never"},
            FileNotFoundError,
            "with split 'never': index.csv has .",
        ),
        (["bare", "one.csv"], {"task": "regression"}, ValueError, "no column 'task'"),
    ],
)
def test_a_folder_that_cannot_be_used_says_why(tmp_path, files, settings, error, message):
    for name in files or []:
        if name == "index.csv":
            INDEX.to_csv(tmp_path / name, index=False)
        elif name == "bare":
            INDEX[["name"]].to_csv(tmp_path / "index.csv", index=False)
        else:
            (tmp_path / name).write_bytes(b"")
    with pytest.raises(error, match=message):
        Folder(tmp_path if files is not None else tmp_path / "none", **settings)


def test_what_to_do_is_told_of_encodings_names_with_ends_and_an_index_of_no_row(tmp_path):
    for form, text in (("csv", "größe,y\n1,2\n"), ("arff", ARFF + "4,y,nö\n")):
        (tmp_path / f"western {form}.{form}").write_text(text, encoding="latin-1")
        with pytest.raises(ValueError, match=rf"western {form}.{form} .*: save it as UTF-8\."):
            Folder(tmp_path)[f"western {form}"]
    (tmp_path / "index.csv").write_text("name\nwestern csv.csv\nnone.csv\n")
    with pytest.raises(FileNotFoundError, match="call it 'western csv' in index.csv"):
        Folder(tmp_path)["western csv.csv"]
    with pytest.raises(FileNotFoundError, match=f"no file of that name in {tmp_path}.$"):
        Folder(tmp_path)["none.csv"]
    (tmp_path / "index.csv").write_text("name,split\n")
    with pytest.raises(FileNotFoundError, match="it needs a row in its index.csv"):
        Folder(tmp_path)


@pytest.mark.parametrize("missing", [-1, None, "-1", np.nan])
def test_a_selection_counts_classes_as_meta_fit_does(missing):
    X, y = np.random.default_rng(0).standard_normal((30, 3)), np.arange(30) % 2
    known = np.arange(30) % 3 > 0
    y = y.astype(str) if isinstance(missing, str) else y
    y = np.where(known, y.astype(object), missing)
    chosen = select({"half": (X, y)}, n_classes=(2, 2), min_class_size=10)
    assert list(chosen) == ["half"]
    assert as_dataset(X, y).n_classes == 2
    rejected = select({"half": (X, y)}, n_rows=(31, 99), min_class_size=11).rejected
    assert rejected == {"half": "30 rows, 10 rows in the smallest class"}
    ready = {"half": as_dataset(X, y)}
    assert select(ready, n_rows=(31, 99), min_class_size=11).rejected == rejected
    assert as_source(select(ready))["half"].n_classes == 2
    none = select({"none": (X, np.full(30, -1))}, n_classes=(2, 9), min_class_size=1)
    assert none.rejected == {"none": "0 classes"}
    counts = select({"counts": as_dataset(X, known + 5, metadata={"task": "regression"})})
    assert as_source(counts)["counts"].y.dtype == np.float32


def test_a_selection_takes_fractions_for_a_regression_target_as_meta_fit_does():
    X = np.random.default_rng(0).standard_normal((30, 3))
    assert list(select({"sum": (X, X.sum(1))}, n_classes=(2, 5), min_class_size=5)) == ["sum"]
    rejected = select({"sum": (X, np.where(X[:, 0] > 0, np.inf, X[:, 1]))}).rejected
    assert "infinite" in rejected["sum"]


def test_a_selection_leaves_out_labels_that_meta_fit_cannot_read():
    days = np.array([date(2020, 1, 1 + i % 2) for i in range(30)], dtype=object)
    X = pairs()["fits"][0]
    odd = {"days": (X, days, {"id": 61}), "fits": pairs()["fits"]}
    chosen = select(odd)
    assert list(chosen) == ["fits"]
    assert "must be numbers or strings" in chosen.rejected["days"]
    assert select(odd, exclude=[61]).rejected == {"days": "excluded"}


def pairs():
    X = np.random.default_rng(0).standard_normal((30, 12))
    y = np.arange(30)
    return {
        "small": (X[:8], y[:8] % 2),
        "wide": (X, y % 2),
        "many": (X[:, :4], y % 10),
        "rare": (X[:, :4], y // 28),
        "fits": (X[:, :4], y % 3),
    }


def test_filters_name_what_they_leave_out(indexed):
    chosen = select(
        pairs(), n_columns=(2, 10), n_rows=(20, 100), n_classes=(2, 5), min_class_size=5
    )
    assert list(chosen) == ["fits"]
    assert chosen.rejected == {
        "small": "8 rows, 12 columns, 4 rows in the smallest class",
        "wide": "12 columns",
        "many": "10 classes, 3 rows in the smallest class",
        "rare": "2 rows in the smallest class",
    }
    assert list(select(pairs())) == list(pairs())
    folder = Folder(indexed)
    assert list(select(folder, exclude=["twins", "later"])) == ["kept", "number"]
    once = select(folder, one_a_family=True)
    assert list(once) == ["one", "kept", "later", "number"]
    assert once.rejected == {"two": "another of family 'twins'"}
    assert list(select(Subset(folder, ["one", "two"]), one_a_family=True)) == ["one"]
    assert list(select(once, exclude=["twins"])) == ["kept", "later", "number"]
    # Class sizes say nothing about a regression target.
    assert "number" in select(folder, n_classes=(2, 2), min_class_size=4)
    by_id = {"a": (*pairs()["fits"], {"id": 61}), "b": (*pairs()["fits"], {"id": 62})}
    assert list(select(by_id, exclude=[61])) == list(select(by_id, exclude=61)) == ["b"]


def test_a_row_of_the_index_without_an_id_leaves_the_others_theirs(indexed):
    ids = ["61", "", "007", "NA", "4"]
    INDEX.assign(id=ids).to_csv(indexed / "index.csv", index=False)
    assert list(select(Folder(indexed), exclude=[61, "007"])) == ["two", "later", "number"]


def test_codes_are_the_same_in_every_part_of_a_large_file(tmp_path):
    """pandas would read 01 as a number in those parts of 256 rows whose codes are all digits."""
    codes = np.resize(["00", "01", "02"], 300)
    codes[-1] = "A1"
    header = ",".join(f"c{i}" for i in range(4000))
    lines = [header + ",target", *(f"{i}" + "," * 4000 + code for i, code in enumerate(codes))]
    (tmp_path / "wide.csv").write_text("\n".join(lines))
    assert Folder(tmp_path)["wide"].y.tolist() == codes.tolist()


@given(st.sets(st.text(min_size=1), min_size=1, max_size=30), st.integers(0, 5), st.data())
def test_a_split_depends_on_the_family_alone(names, seed, data):
    collection = dict.fromkeys(names)
    parts = split(collection, seed=seed)
    assert sorted(name for part in parts for name in part) == sorted(names)
    some = data.draw(st.sets(st.sampled_from(sorted(names))))
    for part, part_of_some in zip(parts, split(dict.fromkeys(some), seed=seed)):
        assert set(part_of_some) == set(part) & some
    together = Subset(collection, names)
    together.families = dict.fromkeys(names, "one")
    assert sorted(map(len, split(together, seed=seed))) == [0, 0, len(names)]


def test_a_table_stays_on_its_side_in_later_versions():
    names = ["iris", "wine", "vehicle", "segment", "glass", "sonar", "letter", "yeast"]
    train, valid, test = map(list, split(dict.fromkeys(names)))
    assert train == ["iris", "wine", "segment", "glass", "sonar"]
    assert valid == ["yeast"] and test == ["vehicle", "letter"]


def test_names_of_files_may_be_of_any_encoding(tmp_path, monkeypatch):
    X, y = load_iris(return_X_y=True)
    table = pd.DataFrame(X).assign(y=y).to_csv(index=False)
    (tmp_path / os.fsdecode(b"caf\xe9.csv")).write_text(table)
    (tmp_path / os.fsdecode("caf\xe9.csv".encode())).write_text(table)
    monkeypatch.chdir(tmp_path)
    folder = Folder(".")
    monkeypatch.chdir("/")  # tables are read later
    assert sum(map(len, split(folder))) == 2
    found = evaluate({"1-NN": peers()["1-NN"]}, folder, n_episodes=1, n_shots=[1], verbose=False)
    assert len(found.records) == 2 and not found.failures


def test_what_is_no_collection_no_pair_and_no_share_is_told():
    tables = {"iris": load_iris(return_X_y=True)}
    with pytest.raises(ValueError, match="mapping of names to tables, got list"):
        select([tables["iris"]])
    for bounds in (5, (5,), (1, 2, 3), (10, None)):
        with pytest.raises(ValueError, match=r"n_rows must be a pair \(minimum, maximum\)"):
            select(tables, n_rows=bounds)
    with pytest.raises(ValueError, match="shares must be"):
        split(tables, (np.nan, 1))
    with pytest.raises(ValueError, match="mapping of names to tables, got str"):
        split("tables")


def test_a_split_has_its_shares():
    sizes = [len(part) for part in split(dict.fromkeys(map(str, range(2000))))]
    np.testing.assert_allclose(sizes, [1200, 200, 600], atol=60)
    assert [list(p) for p in split({"a": 0, "b": 0}, shares=(0, 1))] == [[], ["a", "b"]]
    part = split(pairs(), shares=(1,))[0]
    assert part["fits"][0].shape == (30, 4)
    with pytest.raises(KeyError):
        split(pairs(), shares=(1, 0))[1]["fits"]
    for shares in ((0.5, 0.6), (1.5, -0.5), ()):
        with pytest.raises(ValueError, match="non-negative and sum to 1"):
            split({}, shares=shares)


def test_classes_of_csv_that_look_like_gaps_are_classes(tmp_path):
    rows = pd.DataFrame({"a": np.arange(9.0), "k": ["None", "u", "v"] * 3})
    rows["target"] = ["None", "Apnea", "n/a"] * 3
    rows.to_csv(tmp_path / "sleep.csv", index=False)
    X, y, _ = Folder(tmp_path)["sleep"]
    assert sorted(set(y.dropna())) == ["Apnea", "None"] and y.isna().sum() == 3 and len(y) == 9
    assert set(X["k"]) == {"None", "u", "v"} and X["a"].dtype == float
    (tmp_path / "gaps.csv").write_text("a,k,t\nNA,NA,x\n1,null,y\nnull,u,x\n2,,\n")
    X, y, _ = Folder(tmp_path)["gaps"]
    assert y[:3].tolist() == ["x", "y", "x"] and y.isna()[3]
    assert X["a"].isna().tolist() == [True, False, True, False]  # a column of numbers
    assert X["k"].isna().tolist() == [True, False, False, True]
    (tmp_path / "flags.csv").write_text("a,k,t\n1,True,True\n2,,\n3,False,False\n4,TRUE,TRUE\n")
    X, y, _ = Folder(tmp_path)["flags"]
    assert set(X["k"].dropna()) == {True, False} and y.dropna().tolist() == [True, False, True]


def test_rows_with_names_and_lines_that_end_in_a_comma(tmp_path):
    (tmp_path / "r.csv").write_text('"a","b","y"\n"1",0.1,5,"u"\n"2",0.3,6,"v"\n"3",1,,"None"\n')
    X, y, _ = Folder(tmp_path)["r"]
    assert X["a"].tolist() == [0.1, 0.3, 1.0] and y.tolist() == ["u", "v", "None"]
    (tmp_path / "comma.csv").write_text("a,b,y\n1,2,u,\n3,4,None,\n")
    X, y, _ = Folder(tmp_path)["comma"]
    assert X["a"].tolist() == [1, 3] and y.tolist() == ["u", "None"]


@pytest.mark.parametrize("cell", ["{0},5", "{0},5,{1},5", "{1},{0},0"])
def test_lines_of_more_cells_than_names_are_refused_where_the_first_name_no_rows(tmp_path, cell):
    """pandas would take the first cell for a row's name, and silently drop the 1 of a price 1,5."""
    rows = [f"{cell.format(i % 3, i % 4)},{i},{i % 2}" for i in range(24)]
    (tmp_path / "prices.csv").write_text("\n".join(["price,size,y", *rows]))
    with pytest.raises(ValueError, match="'prices': .*more cells than there are names.*in quotes"):
        Folder(tmp_path)["prices"]


@pytest.mark.parametrize("row", ["1,5;2;{0}", "1,5;2,5;{0}"])
def test_semicolons_between_cells_are_told_of_beside_decimal_commas(tmp_path, row):
    (tmp_path / "prices.csv").write_text("\n".join(["price;size;y", *map(row.format, range(9))]))
    with pytest.raises(ValueError, match="'prices': .*separate the cells by commas"):
        Folder(tmp_path)["prices"]


def test_one_line_of_more_cells_than_names_names_no_rows(tmp_path):
    rows = [f"{i},{i % 3},{i % 2}" for i in range(9)]
    (tmp_path / "first.csv").write_text("\n".join(["a,b,y", "1,2,3,0", *rows]))
    with pytest.raises(ValueError, match="more cells than there are names"):
        Folder(tmp_path)["first"]


@pytest.mark.parametrize("start", [0, 1])
def test_numbers_of_rows_without_a_name_are_no_column(tmp_path, start):
    frame = frame_of()
    frame.loc[2, "c"] = np.nan  # text with a gap is read differently
    frame.set_index(np.arange(start, 9 + start)).to_csv(tmp_path / "one.csv")  # as R's write.csv
    assert list(Folder(tmp_path)["one"].X) == ["a", "b", "c"]
    frame.set_index(frame.pop("a")).rename_axis(None).to_csv(tmp_path / "one.csv")
    assert list(Folder(tmp_path)["one"].X) == ["Unnamed: 0", "b", "c"]
    frame.set_index(np.array([*"abcdefghi"])).to_csv(tmp_path / "one.csv")  # row names, as of cars
    assert list(Folder(tmp_path)["one"].X) == ["Unnamed: 0", "b", "c"]
    frame.set_index(np.arange(9) // 3).to_csv(tmp_path / "one.csv")  # numbers repeat
    assert list(Folder(tmp_path)["one"].X) == ["Unnamed: 0", "b", "c"]


def test_numbers_of_rows_that_were_chosen_shuffled_or_written_twice_are_none_either(tmp_path):
    """If the table was sorted by class, row numbers would reveal it."""
    frame, file = frame_of(), tmp_path / "one.csv"
    for rows in (frame.drop(index=3), frame[frame["b"] > 0], frame[::-1], frame.sample(frac=0.7)):
        rows.to_csv(file)
        assert list(Folder(tmp_path)["one"].X) == ["a", "b", "c"]
    for _ in range(2):
        pd.read_csv(file).to_csv(file)
        assert list(Folder(tmp_path)["one"].X) == ["a", "b", "c"]


def test_numbers_of_rows_in_parquet_are_no_column_and_no_target_either(tmp_path):
    frame, file = frame_of(), tmp_path / "one.parquet"
    frame.to_csv(tmp_path / "numbered.txt")
    pd.read_csv(tmp_path / "numbered.txt").to_parquet(file)  # the first column is called Unnamed: 0
    assert list(Folder(tmp_path)["one"].X) == ["a", "b", "c"]
    numbers = frame.sample(frac=1, random_state=0).index
    # As polars writes a shuffled table that pandas had written.
    frame.assign(__index_level_0__=numbers).to_parquet(file)
    X, y, _ = Folder(tmp_path)["one"]
    assert list(X) == ["a", "b", "c"] and y.name == "target"


def test_categories_that_are_numbers_are_categories_in_parquet(tmp_path):
    """As in the frame itself, although pandas reads such categories as numbers."""
    frame = frame_of(60)
    frame["codes"] = pd.Categorical(np.resize([5, 7, 9], 60))
    frame["gaps"] = pd.Categorical(np.resize(np.array([5, 7, 9, None], dtype=object), 60))
    frame = frame[["codes", "gaps", "a", "target"]]
    frame.to_parquet(tmp_path / "one.parquet")
    X, y, _ = Folder(tmp_path)["one"]
    assert X.dtypes.astype(str).tolist() == ["category", "category", "float64"]
    expected = as_dataset(frame.iloc[:, :-1], frame["target"]).X
    np.testing.assert_array_equal(as_dataset(X, y).X, expected)
    assert expected.shape == (60, 7)


@pytest.mark.parametrize("classes", [[-1, 0, 1], [-1, 1], [-1.0, 2.0]])
@pytest.mark.parametrize("task", [None, "classification"])
def test_in_a_file_minus_one_is_a_class_and_a_gap_is_none(tmp_path, classes, task):
    frame = frame_of(60)
    frame["target"] = np.resize(np.array([*classes, np.nan], dtype=object), 60)
    frame.to_csv(tmp_path / "one.csv", index=False)
    if task:
        (tmp_path / "index.csv").write_text(f"name,task\none,{task}\n")
    folder, n = Folder(tmp_path), len(classes)
    dataset = as_source(folder)["one"]
    assert dataset.n_classes == n and len(dataset.unlabelled) == 60 // (n + 1)
    assert not select(folder, n_classes=(n, n)).rejected
    asked = []

    class Constant(DummyClassifier):
        def fit(self, X, y):
            asked.append(len(set(y)))
            return super().fit(X, y)

    evaluate({"constant": Constant()}, folder, n_shots=2, n_episodes=2, n_unlabelled=3)
    assert asked == [n, n]
    pair = {"one": (frame[["a", "b"]], frame["target"].fillna(classes[-1] + 1))}
    assert len(as_source(pair)["one"].unlabelled) == 60 // (n + 1)  # in a pair it is a mark


def test_a_file_without_names_of_columns_is_told_of(tmp_path):
    rng = np.random.default_rng(0)
    for values in (rng.standard_normal((9, 3)), rng.integers(0, 2, (9, 5))):
        pd.DataFrame(values).to_csv(tmp_path / "one.csv", index=False, header=False)
        with pytest.warns(UserWarning, match="one.csv begins with numbers.*line of column names"):
            assert len(Folder(tmp_path)["one"].y) == 8
    frame = pd.DataFrame(rng.standard_normal((9, 3)))
    (tmp_path / "one.csv").write_text(
        "5.1,,0.2,setosa\n4.9,3.0,0.2,setosa\n6.1,2.9,1.4,virginica\n"
    )
    with pytest.warns(UserWarning, match="begins with numbers, 5.1"):
        Folder(tmp_path)["one"]
    with_names = ["1.1", "1.2", "y"], ["0", "1", "2"], ["1990", "1991", "1992"], ["a", "0.5", "y"]
    for names in (*with_names, [".", "..", "y"]):
        frame.set_axis(names, axis=1).to_csv(tmp_path / "one.csv", index=False)
        with warnings.catch_warnings(action="error"):
            assert len(Folder(tmp_path)["one"].y) == 9


def test_rows_of_empty_cells_at_the_end_are_none(tmp_path):
    """Spreadsheets leave empty rows; with them row numbers would pass for an attribute."""
    frame_of().assign(target=[0] * 4 + [1] * 5).to_csv(tmp_path / "one.csv")
    with (tmp_path / "one.csv").open("a") as file:
        file.write(",,,,\n" * 2)
    X, y, _ = Folder(tmp_path)["one"]
    assert list(X) == ["a", "b", "c"] and len(X) == 9 and y.tolist() == [0] * 4 + [1] * 5
    dataset = as_source(Folder(tmp_path))["one"]
    assert dataset.n_classes == 2 and dataset.unlabelled is None


def test_a_file_of_nothing_but_numbers_of_rows_has_no_table(tmp_path):
    pd.DataFrame(index=range(9)).to_csv(tmp_path / "one.csv")
    with pytest.raises(ValueError, match="no column besides the target"):
        Folder(tmp_path)["one"]


def test_a_table_that_an_index_has_twice_is_refused(indexed):
    twice = pd.concat([INDEX, INDEX.head(1).assign(split="test")])
    twice.to_csv(indexed / "index.csv", index=False)
    with pytest.raises(ValueError, match="index.csv has two rows for 'one'"):
        Folder(indexed, split="test")


def test_an_index_with_empty_cells(tmp_path):
    table = pd.DataFrame({"a": [1.5, 2, 3], "t": [1.5, 2, 3]})
    for name in ("NA", "iris", "wine"):
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    index = tmp_path / "index.csv"
    index.write_text("name,family,task,split\nNA,,,0\niris,,regression,1\nwine,flowers,,0\n")
    folder = Folder(tmp_path)
    assert list(folder) == ["NA", "iris", "wine"] and folder.families == {"wine": "flowers"}
    assert folder["NA"].metadata == {"name": "NA", "split": "0", "marked": False}
    assert list(Folder(tmp_path, split=0)) == list(Folder(tmp_path, split="0")) == ["NA", "wine"]
    assert len(as_source(folder, task="regression")) == 3
    index.write_text("name,split\nNA,1\niris,\nwine,2\n")  # and is still no number
    assert list(Folder(tmp_path, split=1)) == ["NA"]
    index.write_text("name,split\nNA,1\n,\niris,\n,\n")  # as a spreadsheet ends
    assert list(Folder(tmp_path)) == ["NA", "iris"]
    index.write_text("name,rows\niris,3\nwine,\n")
    assert [Folder(tmp_path)[name].metadata.get("rows") for name in ("iris", "wine")] == [3, None]
    index.write_text("title\niris\n")
    with pytest.raises(ValueError, match="has no column 'name'"):
        Folder(tmp_path)
    for text in ("", "name,split\niris,1\nwine,0,\n"):
        index.write_text(text)
        with pytest.raises(ValueError, match="index.csv is not a CSV with one row per table: "):
            Folder(tmp_path)


def test_an_index_may_begin_with_a_capital(indexed):
    (indexed / "index.csv").rename(indexed / "Index.csv")
    assert list(Folder(indexed)) == list(INDEX["name"])
    assert list(Folder(indexed, split="train")) != list(INDEX["name"])


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
@pytest.mark.parametrize("first", ["sep=,\n", '"sep=,"\r\n', "sep=,,,\n", ""])
def test_a_line_that_names_the_separator_is_no_row(tmp_path, first, encoding):
    expected = frame_of()
    text = first + expected.to_csv(index=False)
    (tmp_path / "one.csv").write_text(text, encoding=encoding)
    found = Folder(tmp_path)["one"]
    assert list(found.X.columns) == ["a", "b", "c"]
    np.testing.assert_allclose(found.X[["a", "b"]], expected[["a", "b"]])
    assert list(found.y) == list(expected["target"])


def test_names_of_files_and_of_what_is_excluded(tmp_path):
    table = pd.DataFrame({"a": [1, 2, 3, 4], "t": ["x", "y"] * 2})
    table.to_csv(tmp_path / "UPPER.CSV", index=False)
    table.to_csv(tmp_path / "semicolons.csv", index=False, sep=";")
    for hidden in (".~lock.UPPER.csv", "._UPPER.csv"):
        (tmp_path / hidden).touch()
    folder = Folder(tmp_path)
    assert list(folder) == ["UPPER", "semicolons"] and folder["UPPER"].y.tolist() == ["x", "y"] * 2
    assert list(select(folder, exclude="UPPER")) == []
    with pytest.raises(FileNotFoundError, match="no folder .*UPPER.CSV: give a folder of tables"):
        Folder(tmp_path / "UPPER.CSV")
    with pytest.raises(ValueError, match="'semicolons'.* separate the cells by commas"):
        folder["semicolons"]
    numbered = {1: (table[["a"]], table["t"]), 2: (table[["a"]], table["t"])}
    assert list(select(numbered, exclude=[1])) == [2]


def test_a_target_without_a_value_is_told(tmp_path):
    pd.DataFrame({"a": [1, 2], "b": [3, 4], "t": [None, None]}).to_csv(tmp_path / "no.csv")
    with pytest.raises(
        ValueError, match="'no': the last column of .*no.csv, the target, has no value"
    ):
        Folder(tmp_path)["no"]


@pytest.mark.parametrize(
    "name, missing, extra",
    [
        ("a.csv", "pandas", "tables"),
        ("a.parquet", "pandas", "tables"),
        ("a.arff", "arff", "openml"),
        ("index.csv", "pandas", "tables"),
    ],
)
def test_what_is_not_installed_is_named_with_its_extra(tmp_path, monkeypatch, name, missing, extra):
    for file in [name] if name.startswith("a") else [name, "a.csv"]:
        (tmp_path / file).write_text("name,y\na,1\n")
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ImportError, match=rf'{name} requires {missing}.*"sklearn_meta\[{extra}\]"'):
        Folder(tmp_path)["a"]


def test_one_bad_table_does_not_spoil_the_others():
    X, y = load_iris(return_X_y=True)
    arrays = pd.DataFrame({"a": range(6), "l": [np.array([1, 2])] * 6})
    bad = {"vector": (X[:, 0], y), "empty": (X[:0], y[:0]), "text": (X, ["a"] * 150)}
    bad["cells"] = arrays, [0, 1] * 3
    with pytest.warns(UserWarning, match="left out") as told:
        source = as_source({"iris": (X, y), **bad}, task="regression")
    assert {"iris"} == set(source)
    message = str(told[0].message)
    assert all(repr(name) in message for name in bad)


def test_a_table_that_is_none_is_rejected_by_name():
    chosen = select({"ok": (np.ones((4, 2)), [0, 1] * 2), "bad": (["a text", "b text"], [0, 1])})
    assert list(chosen) == ["ok"] and "expected X with rows and columns" in chosen.rejected["bad"]


def test_a_selection_rejects_what_is_no_table_in_the_words_of_meta_fit():
    X, y = pairs()["fits"]
    odd = {"noted": (X, y, "iris"), "one": 5, "list": Dataset("list", X.tolist(), y)}
    rejected = select(odd | {"ok": (X, y)}).rejected
    assert list(rejected) == list(odd)
    with pytest.raises(ValueError) as told:
        as_source(odd)
    assert all(reason in str(told.value) for reason in rejected.values())


def test_tables_of_no_row_and_of_two_lengths_are_rejected():
    odd = {"none": (np.ones((0, 2)), []), "short": (np.ones((4, 2)), [0, 1])}
    odd["unlabelled"] = np.ones((4, 2)), None
    rejected = select(odd | {"ok": (np.ones((4, 2)), [0, 1] * 2)}).rejected
    assert rejected["none"] == "Dataset 'none' has no rows." and "[4, 2]" in rejected["short"]
    assert len(rejected) == 3


@pytest.mark.parametrize(
    "read, arguments",
    [
        (Folder, ()),
        (load_omniglot, ()),
        (load_mini_imagenet, ()),
        (load_cifar_fs, ()),
        (load_reviews, ()),
        (rows_by_domain, ([], "train")),
        (load_conll_folder, ("conll2000",)),
        (load_tagging, ("crossner", "pos")),
        (read_conll, (1,)),
        (read_word_vectors, ()),
        (read_recipe, (None,)),
    ],
)
def test_a_path_may_begin_at_home(tmp_path, monkeypatch, read, arguments):
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=f"{tmp_path}/nothing"):
        read("~/nothing", *arguments)

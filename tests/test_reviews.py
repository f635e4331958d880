"""FDU-MTL: both layouts, damaged files, and the real set."""

import codecs
import os
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sklearn_meta.tasks.reviews import load_reviews, rows_by_domain


def lines(n, start=0):
    """Reviews of alternating labels, each with one word that names its row."""
    return [f"{row % 2}\tword{row} " for row in range(start, start + n)]


def write(folder, domain, ending, rows, encoding="utf-8"):
    path = folder / f"{domain}.task.{ending}"
    path.write_bytes("\n".join([*rows, ""]).encode(encoding))
    return path


@pytest.fixture
def public(tmp_path):
    """The public layout, with domains in no order."""
    for domain in ("video", "MR", "books"):
        write(tmp_path, domain, "train", lines(205))
        write(tmp_path, domain, "test", [f"1\tfine {domain} .", "0\tso  so "])
    write(tmp_path, "books", "unlabel", ["Bought it twice.", "Never again! "])
    return tmp_path


@pytest.fixture
def packed(tmp_path):
    """The parquet layout; domains and splits are interleaved."""
    frame = pd.DataFrame(
        [
            ("toys", "train", 1, "broke not "),
            ("baby", "test", 0, "too small"),
            ("baby", "train", 0, "bad"),
            ("toys", "unlabelled", -1, "Hm"),
            ("toys", "train", 0, " "),
            ("baby", "valid", 1, "good"),
        ],
        columns=["domain", "split", "label", "text"],
    )
    frame["label"] = frame["label"].astype(np.int8)
    frame.to_parquet(tmp_path / "fdu_mtl.parquet")
    return frame


# The public files


def test_the_last_200_rows_of_a_training_file_are_for_validation(public):
    train, valid = load_reviews(public), load_reviews(public, "valid")
    assert list(train) == list(valid) == ["MR", "books", "video"]
    texts, labels = train["books"]
    assert texts == [f"word{row}" for row in range(5)]
    assert labels.tolist() == [0, 1, 0, 1, 0]
    assert labels.dtype == np.int64
    texts, labels = valid["books"]
    assert texts == [f"word{row}" for row in range(5, 205)]
    assert labels.tolist() == [row % 2 for row in range(5, 205)]


def test_test_rows_are_all_of_their_file(public):
    texts, labels = load_reviews(public, "test")["video"]
    assert texts == ["fine video .", "so  so"]
    assert labels.tolist() == [1, 0]


def test_unlabelled_rows_are_whole_lines_and_only_of_domains_that_have_them(public):
    write(public, "MR", "unlabel", ["1\tlabelled after all", "2\tis no label"])
    found = load_reviews(public, "unlabelled")
    assert list(found) == ["MR", "books"]
    assert found["books"][0] == ["Bought it twice.", "Never again!"]
    assert found["MR"][0] == ["labelled after all", "2\tis no label"]
    assert found["MR"][1].tolist() == found["books"][1].tolist() == [-1, -1]
    assert found["books"][1].dtype == np.int64


def test_domains_are_chosen_by_name(public):
    assert list(load_reviews(public, domains="MR")) == ["MR"]
    assert list(load_reviews(public, "test", ["video", "MR"])) == ["MR", "video"]


def test_a_line_that_is_not_utf_8_is_read_as_latin_1_and_the_others_are_not(public):
    path = public / "MR.task.test"
    path.write_bytes("1\ttouché .\n".encode() + "0\tdéjà vu\r\n".encode("latin-1"))
    assert load_reviews(public, "test")["MR"][0] == ["touché .", "déjà vu"]
    path.write_bytes(codecs.BOM_UTF8 + "1\tdéjà vu\n".encode("latin-1"))
    assert load_reviews(public, "test")["MR"] == (["déjà vu"], [1])


def test_only_newlines_end_a_review(public):
    write(public, "MR", "test", ["1\tfine\x85 really\u2028so\rgood", "", "0\t"])
    texts, labels = load_reviews(public, "test")["MR"]
    assert texts == ["fine\x85 really\u2028so\rgood", ""]
    assert labels.tolist() == [1, 0]


def test_hidden_files_are_no_domains(public):
    write(public, "._MR", "test", ["\0\0"])
    assert list(load_reviews(public, "test")) == ["MR", "books", "video"]


@pytest.mark.parametrize("line", ["fine", "2\tfine", "-1\tfine", "\tfine", "1 fine"])
def test_a_malformed_line_is_named(public, line):
    path = write(public, "MR", "test", ["1\tfine", line])
    with pytest.raises(ValueError, match="line 2: expected 0 or 1, a tab and a text") as raised:
        load_reviews(public, "test")
    assert str(path) in str(raised.value)


def test_a_training_file_needs_more_rows_than_validation_takes(public):
    write(public, "MR", "train", lines(200))
    for split in ("train", "valid"):
        with pytest.raises(ValueError, match=r"MR\.task\.train has 200 rows"):
            load_reviews(public, split)
    write(public, "MR", "train", lines(201))
    assert load_reviews(public)["MR"][0] == ["word0"]


def test_an_empty_file_is_refused(public):
    write(public, "MR", "test", ["", " "])
    with pytest.raises(ValueError, match=r"MR\.task\.test has no review"):
        load_reviews(public, "test")


def test_unknown_names_and_places_say_what_there_is(public, tmp_path):
    with pytest.raises(
        ValueError, match="no split 'dev': choose from train, valid, test, unlabelled"
    ):
        load_reviews(public, "dev")
    with pytest.raises(ValueError, match=r"no split \['test'\]: choose from train, valid"):
        load_reviews(public, ["test"])
    with pytest.raises(
        ValueError, match="no domain 'mr' in this split: choose from MR, books, video"
    ):
        load_reviews(public, domains=["books", "mr"])
    with pytest.raises(FileNotFoundError, match=r"holds fdu_mtl\.parquet, or <domain>\.task\.test"):
        load_reviews(tmp_path / "elsewhere", "test")


# Parquet


def test_parquet_has_the_same_interface(packed, tmp_path):
    train = load_reviews(tmp_path)
    assert list(train) == ["baby", "toys"]
    assert train["toys"][0] == ["broke not", ""]
    assert train["toys"][1].tolist() == [1, 0]
    assert train["toys"][1].dtype == np.int64
    texts, labels = load_reviews(tmp_path, "unlabelled")["toys"]
    assert (texts, labels.tolist()) == (["Hm"], [-1])
    assert list(load_reviews(tmp_path, domains="baby")) == ["baby"]


def test_parquet_is_read_rather_than_public_files(packed, tmp_path):
    write(tmp_path, "baby", "test", ["1\tpublic"])
    assert load_reviews(tmp_path, "test")["baby"][0] == ["too small"]


def test_unknown_names_in_parquet_say_what_there_is(packed, tmp_path):
    with pytest.raises(ValueError, match="no domain 'toys' in this split: choose from baby"):
        load_reviews(tmp_path, "valid", "toys")
    packed[packed["split"] != "valid"].to_parquet(tmp_path / "fdu_mtl.parquet")
    with pytest.raises(ValueError, match="no split 'valid': choose from test, train, unlabelled"):
        load_reviews(tmp_path, "valid")


def test_parquet_must_have_its_columns_and_values(packed, tmp_path):
    path = tmp_path / "fdu_mtl.parquet"
    packed.drop(columns="label").to_parquet(path)
    with pytest.raises(ValueError, match="no column 'label', only domain, split, text"):
        load_reviews(tmp_path)
    packed.assign(text=packed["text"].where(packed["text"] != "bad")).to_parquet(path)
    with pytest.raises(ValueError, match="rows without 'text'"):
        load_reviews(tmp_path)
    packed.replace({"label": {0: 2}}).to_parquet(path)
    with pytest.raises(ValueError, match="label 2 in split 'train' of baby, where 0 or 1 is"):
        load_reviews(tmp_path)
    packed.replace({"label": {-1: 1}}).to_parquet(path)
    with pytest.raises(ValueError, match="label 1 in split 'unlabelled' of toys, where -1 is"):
        load_reviews(tmp_path, "unlabelled")
    packed.assign(text=range(len(packed))).to_parquet(path)
    with pytest.raises(
        ValueError, match=r"fdu_mtl\.parquet has \d instead of a text in split 'train'"
    ):
        load_reviews(tmp_path)
    packed.assign(split=1).to_parquet(path)
    with pytest.raises(ValueError, match="no split 'train': choose from 1"):
        load_reviews(tmp_path)


def test_a_damaged_or_missing_parquet_file_is_named(packed, tmp_path):
    path = tmp_path / "fdu_mtl.parquet"
    whole = path.read_bytes()
    for damaged in (whole[:-100], whole[:4] + bytes(100) + whole[104:], b""):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"fdu_mtl\.parquet cannot be read"):
            load_reviews(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"There is no .*none\.parquet"):
        rows_by_domain(tmp_path / "none.parquet", ["text"], "train")


def test_only_parquet_takes_pyarrow(packed, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(
        ImportError, match=r'requires pyarrow. Run: pip install "sklearn_meta\[tables\]"'
    ):
        load_reviews(tmp_path)
    (tmp_path / "fdu_mtl.parquet").unlink()
    write(tmp_path, "baby", "test", ["1\tfine"])
    assert load_reviews(tmp_path, "test")["baby"][0] == ["fine"]


# The real set


def test_the_real_set():
    default = Path(__file__).parents[2] / "shared" / "data" / "text"
    folder = Path(os.environ.get("SKLEARN_META_TEXT", default))
    if not (folder / "fdu_mtl.parquet").is_file():
        pytest.skip(f"no fdu_mtl.parquet in {folder}: set SKLEARN_META_TEXT to a folder with it")
    train, valid, test = (load_reviews(folder, split) for split in ("train", "valid", "test"))
    assert len(train) == 16
    assert list(train) == list(valid) == list(test) == list(load_reviews(folder, "unlabelled"))
    for domain, (texts, labels) in test.items():
        assert len(texts) == len(labels) <= 400
        assert 0.4 < labels.mean() < 0.6
        assert not set(texts) & {*train[domain][0], *valid[domain][0]}
    # Reviews of films are sentences in MR, and essays in IMDB: Table 1 has 21 and 269 words.
    lengths = {domain: np.mean([len(text.split()) for text in test[domain][0]]) for domain in test}
    assert 15 < lengths["MR"] < 30
    assert 200 < lengths["imdb"] < 350

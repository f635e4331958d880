"""Tagged sentences: files of columns, CoNLL-U, schemes of tags, and sets of several domains."""

import os
import sys
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sklearn_meta.tasks.tagging import (
    load_conll_folder,
    load_tagging,
    read_conll,
    read_conllu,
    to_iob2,
)

CONLL2000 = """\
Bonds NNS B-NP
fell VBD B-VP

He PRP B-NP
gave VBD B-VP
her PRP B-NP
a DT B-NP
pen NN I-NP
. . O

"""

CONLL2003 = """\
-DOCSTART- -X- -X- O

Ann NNP I-NP I-PER
Lee NNP I-NP I-PER
Bob NNP B-NP B-PER
flew VBD I-VP O
-DOCSTART- -X- O O

Rome NNP I-NP I-LOC

"""

CONLLU = """\
# sent_id = 1
# text = Non dirmelo qui
1-2\tNondir\t_\t_\t_\t_\t_\t_\t_\t_
1\tNon\tnon\tADV\tBN\tPronType=Neg\t2\tadvmod\t_\t_
2\tdir\tdire\tVERB\tV\tNumber=Sing|VerbForm=Inf\t0\troot\t_\tEntity=B-act|SpaceAfter=No
2.1\tlo\t_\tPRON\t_\tNumber=Plur\t_\t_\t2:obj\t_
3\tqui\tqui\tADV\t_\t_\t2\tadvmod\t_\tNumber=Misc

1\tBasta\tbastare\tVERB\tV\tNumber=Sing\t0\troot\t_\t_
"""


@pytest.fixture
def write(tmp_path):
    def write(text, name="file.txt", encoding="utf-8"):
        path = tmp_path / name
        path.write_bytes(text.encode(encoding))
        return path

    return write


# Files of columns


def test_conll_2000(write):
    sentences, tags = read_conll(write(CONLL2000), 2)
    assert sentences == [["Bonds", "fell"], ["He", "gave", "her", "a", "pen", "."]]
    assert tags == [["B-NP", "B-VP"], ["B-NP", "B-VP", "B-NP", "B-NP", "I-NP", "O"]]


def test_conll_2002_in_latin_1(write):
    path = write("España\tB-LOC\nganó\tO\n\n\n\nSí\tO", encoding="latin-1")  # no newline at the end
    assert read_conll(path, 1, encoding="latin-1") == (
        [["España", "ganó"], ["Sí"]],
        [["B-LOC", "O"], ["O"]],
    )
    with pytest.raises(ValueError, match="is not utf-8"):
        read_conll(path, 1)


def test_conll_2003_without_the_marks_of_documents(write):
    path = write(CONLL2003)
    assert read_conll(path, 3) == (
        [["Ann", "Lee", "Bob", "flew"], ["Rome"]],
        [["I-PER", "I-PER", "B-PER", "O"], ["I-LOC"]],
    )
    assert read_conll(path, 0, token_column=1)[0] == [["NNP", "NNP", "NNP", "VBD"], ["NNP"]]


def test_tokens_may_contain_spaces_that_separate_no_columns(write):
    path = write("10\xa0000  CD \t B\u2028C \r\n x NN I\r\n \t\r\ny NN O\r\n")
    assert read_conll(path, 2) == ([["10\xa0000", "x"], ["y"]], [["B\u2028C", "I"], ["O"]])


def test_a_separator_keeps_blanks_and_empty_columns(write):
    path = write("New York\t\tB\nis\tV\tO\n")
    assert read_conll(path, 2, separator="\t") == ([["New York", "is"]], [["B", "O"]])
    assert read_conll(path, 1, separator="\t")[1] == [["", "V"]]


def test_comments_are_left_out_only_where_they_are_named(write):
    path = write("# id 1\n# X\na Y\n")
    assert read_conll(path, 1) == ([["#", "#", "a"]], [["id", "X", "Y"]])
    assert read_conll(path, 1, comment="#") == ([["a"]], [["Y"]])


def test_a_mark_of_byte_order_is_no_part_of_a_token(write):
    assert read_conll(write("\ufeffa X\n"), 1)[0] == [["a"]]
    assert read_conll(write("\ufeffa X\n"), 1, encoding="latin-1")[0] == [["a"]]


def test_a_line_with_too_few_columns_is_named(write):
    path = write("a DT O\n\nb NN\n")
    with pytest.raises(ValueError, match="line 3: expected 3 columns or more, got 2") as raised:
        read_conll(path, 2)
    assert str(path) in str(raised.value)
    assert read_conll(path, 1)[1] == [["DT"], ["NN"]]


@pytest.mark.parametrize("text", ["", "\n \n", "-DOCSTART- -X- O O\n\n"])
def test_a_file_without_sentences_is_refused(write, text):
    with pytest.raises(ValueError, match=r"file\.txt has no sentence"):
        read_conll(write(text), 1)


def test_columns_are_counted_from_zero(write, tmp_path):
    for column, got in ((-1, "-1"), ("chunk", "'chunk'"), (1.0, "1.0")):
        with pytest.raises(ValueError, match=f"counted from 0, got {got}"):
            read_conll(write(CONLL2000), column)
    with pytest.raises(FileNotFoundError):
        read_conll(tmp_path / "elsewhere.txt", 1)


# CoNLL-U


@pytest.fixture
def conllu():
    return pytest.importorskip("conllu")


@pytest.mark.parametrize(
    ("field", "tags"),
    [
        ("upos", [["ADV", "VERB", "ADV"], ["VERB"]]),
        ("xpos", [["BN", "V", "_"], ["V"]]),
        ("Number", [["_", "Sing", "Misc"], ["Sing"]]),
        ("Entity", [["_", "B-act", "_"], ["_"]]),
    ],
)
def test_conllu_has_words_without_multiword_tokens_and_empty_nodes(conllu, write, field, tags):
    assert read_conllu(write(CONLLU), field) == ([["Non", "dir", "qui"], ["Basta"]], tags)


def test_conllu_that_is_malformed_is_refused(conllu, write):
    with pytest.raises(ValueError, match=r"file\.txt, line 4: expected 10 columns"):
        read_conllu(write(CONLLU.replace("\tadvmod\t_\t_\n2\t", "\tadvmod\t_\n2\t")))
    with pytest.raises(ValueError, match=r"file\.txt is not CoNLL-U .*'x' is not a valid ID"):
        read_conllu(write(CONLLU.replace("1\tNon", "x\tNon")))
    with pytest.raises(ValueError, match="is not utf-8"):
        read_conllu(write(CONLLU.replace("qui", "là"), encoding="latin-1"))
    with pytest.raises(ValueError, match="has no sentence"):
        read_conllu(write("# text = nothing\n\n"))
    with pytest.raises(ValueError, match="No word of .* has 'upso'"):
        read_conllu(write(CONLLU), "upso")


def test_conllu_takes_the_library(write, monkeypatch):
    monkeypatch.setitem(sys.modules, "conllu", None)
    with pytest.raises(
        ImportError, match=r'requires conllu. Run: pip install "sklearn_meta\[text\]"'
    ):
        read_conllu(write(CONLLU))


# Schemes

CHUNKS = st.lists(st.tuples(st.sampled_from(["", "PER", "creative-work"]), st.integers(1, 3)))


def tags_of(chunks, scheme):
    """Tags of a sentence, given the type and length of each of its chunks; "" is outside."""
    tags, previous = [], ""
    for kind, length in chunks:
        if not kind:
            tags += ["O"] * length
        else:
            first = "B" if scheme == "IOB2" or kind == previous else "I"
            tags += [f"{first}-{kind}"] + [f"I-{kind}"] * (length - 1)
        previous = kind
    return tags


@given(st.lists(CHUNKS))
def test_both_schemes_become_iob2(sentences):
    first = [tags_of(chunks, "IOB1") for chunks in sentences]
    second = [tags_of(chunks, "IOB2") for chunks in sentences]
    assert to_iob2(first) == second
    assert to_iob2(second) == second


def test_tags_given_are_not_changed():
    tags = [("I-X", "O"), ["I-X"]]
    assert to_iob2(tags) == [["B-X", "O"], ["B-X"]]
    assert tags == [("I-X", "O"), ["I-X"]]


@pytest.mark.parametrize("tag", ["PER", "S-PER", "E-PER", "B-", "I", "", "O-PER", "-", "o", "b-X"])
def test_other_tags_are_refused(tag):
    with pytest.raises(ValueError, match=f"Sentence 1 has the tag '{tag}'"):
        to_iob2([["O"], ["O", tag]])


@pytest.mark.parametrize("tag", [None, 3, ["O"]])
def test_what_is_no_string_is_no_tag(tag):
    with pytest.raises(
        ValueError,
        match="Sentence 0 has the tag .*: give one list .*, each O, B-<type> or I-<type>",
    ):
        to_iob2([["O", tag]])


def test_a_list_of_one_sentence_is_refused():
    with pytest.raises(ValueError, match="one list of tags per sentence"):
        to_iob2(["B-PER", "O"])


def test_a_mixture_of_schemes_is_refused():
    with pytest.raises(ValueError, match="I-PER in sentence 1, another with B-LOC in sentence 2"):
        to_iob2([["O"], ["I-PER", "I-PER"], ["O", "B-LOC"]])
    with pytest.raises(ValueError, match="neither IOB1 nor IOB2"):
        to_iob2([["B-LOC", "I-PER"]])


# Shared tasks


def test_shared_task_of_2000(write, tmp_path):
    write(CONLL2000, "train.txt")
    write("Go VB B-VP\n", "test.txt")
    tasks = load_conll_folder(tmp_path, "conll2000")
    assert list(tasks) == ["pos", "chunk"]
    assert tasks["chunk"] == read_conll(tmp_path / "train.txt", 2)
    assert tasks["pos"] == read_conll(tmp_path / "train.txt", 1)
    assert load_conll_folder(tmp_path, "conll2000", "test")["pos"] == ([["Go"]], [["VB"]])
    with pytest.raises(ValueError, match="conll2000 has no split 'valid': choose from train, test"):
        load_conll_folder(tmp_path, "conll2000", "valid")
    with pytest.raises(
        ValueError, match=r"conll2000 has no split \['test'\]: choose from train, test"
    ):
        load_conll_folder(tmp_path, "conll2000", ["test"])
    with pytest.raises(ValueError, match=r"no dataset \['conll2000'\]: choose from"):
        load_conll_folder(tmp_path, ["conll2000"])


@pytest.mark.parametrize(
    ("split", "name"), [("train", "eng.train"), ("valid", "eng.testa"), ("test", "eng.testb")]
)
def test_shared_task_of_2003_in_iob2(write, tmp_path, split, name):
    write(CONLL2003, name)
    tasks = load_conll_folder(tmp_path, "conll2003", split)
    assert list(tasks) == ["pos", "chunk", "ner"]
    assert all(sentences == read_conll(tmp_path / name, 1)[0] for sentences, _ in tasks.values())
    assert tasks["pos"][1] == [["NNP", "NNP", "NNP", "VBD"], ["NNP"]]
    assert tasks["chunk"][1] == [["B-NP", "I-NP", "B-NP", "B-VP"], ["B-NP"]]
    assert tasks["ner"][1] == [["B-PER", "I-PER", "B-PER", "O"], ["B-LOC"]]


def test_shared_tasks_say_what_is_wrong(write, tmp_path):
    with pytest.raises(
        ValueError, match="no dataset 'conll2001': choose from conll2000, conll2003"
    ):
        load_conll_folder(tmp_path, "conll2001")
    with pytest.raises(FileNotFoundError, match=r"holds eng\.train, eng\.testa, eng\.testb"):
        load_conll_folder(tmp_path, "conll2003")
    write("a DT NP\n", "train.txt")
    with pytest.raises(ValueError, match=r"train\.txt, column 'chunk': Sentence 0 has the tag"):
        load_conll_folder(tmp_path, "conll2000")
    write(CONLL2000, "eng.train")
    with pytest.raises(ValueError, match=r"eng\.train, line 1: expected 4 columns"):
        load_conll_folder(tmp_path, "conll2003")


# Parquet of several domains


@pytest.fixture
def table(tmp_path):
    (tmp_path / "seqtag").mkdir()
    frame = pd.DataFrame(
        [
            ("politics", "train", "d0", ["Ann", "won"], ["N", "V"], ["B-PER", "O"]),
            ("music", "train", "d1", ["La", "la"], ["X", "X"], ["I-SONG", "I-SONG"]),
            ("music", "test", "d2", ["Sing"], ["V"], ["O"]),
            ("politics", "train", "d3", ["Why"], ["W"], ["O"]),
        ],
        columns=["domain", "split", "doc", "tokens", "pos", "ner"],
    )
    frame.to_parquet(tmp_path / "seqtag" / "small.parquet")
    return frame


def test_parquet_by_domain(table, tmp_path):
    assert load_tagging(tmp_path, "small", "pos") == {
        "music": ([["La", "la"]], [["X", "X"]]),
        "politics": ([["Ann", "won"], ["Why"]], [["N", "V"], ["W"]]),
    }
    assert list(load_tagging(tmp_path, "small", "pos")) == ["music", "politics"]
    assert load_tagging(tmp_path / "seqtag", "small", "ner", "test") == {
        "music": ([["Sing"]], [["O"]])
    }
    ner = load_tagging(tmp_path, "small", "ner", domains="music")
    assert ner == {"music": ([["La", "la"]], [["B-SONG", "I-SONG"]])}


def test_parquet_says_what_is_wrong(table, tmp_path):
    with pytest.raises(ValueError, match="no task 'doc': choose from pos, chunk, ner"):
        load_tagging(tmp_path, "small", "doc")
    with pytest.raises(ValueError, match="no column 'chunk', only domain, split, doc, tokens, pos"):
        load_tagging(tmp_path, "small", "chunk")
    with pytest.raises(ValueError, match="no split 'valid': choose from test, train"):
        load_tagging(tmp_path, "small", "pos", "valid")
    with pytest.raises(
        ValueError, match="no domain 'law' in this split: choose from music, politics"
    ):
        load_tagging(tmp_path, "small", "pos", domains=["music", "law"])
    with pytest.raises(FileNotFoundError, match=r"no .*large\.parquet: choose from .* \(small\)"):
        load_tagging(tmp_path, "large", "pos")
    with pytest.raises(FileNotFoundError, match=r"choose from what is there \(nothing\)"):
        load_tagging(tmp_path / "elsewhere", "small", "pos")


@pytest.mark.parametrize("column", ["tokens", "ner"])
@pytest.mark.parametrize(
    "spoil", [" ".join, len, lambda row: [*row[1:], None], lambda row: list(range(len(row)))]
)
def test_parquet_with_others_than_lists_of_texts(table, tmp_path, column, spoil):
    table[column] = [spoil(row) for row in table[column]]
    table.to_parquet(tmp_path / "seqtag" / "small.parquet")
    with pytest.raises(
        ValueError, match="small.parquet: tokens and tags must .* not in sentence 0 of"
    ):
        load_tagging(tmp_path, "small", "ner")


def test_parquet_with_tags_amiss(table, tmp_path):
    path = tmp_path / "seqtag" / "small.parquet"
    table.at[3, "pos"] = ["W", "W"]
    table.at[0, "ner"] = ["PER", "O"]
    table.to_parquet(path)
    with pytest.raises(ValueError, match="sentence 1 of politics, .* has 1 tokens and 2 tags"):
        load_tagging(tmp_path, "small", "pos")
    with pytest.raises(ValueError, match=r"small\.parquet, politics, column 'ner': Sentence 0 has"):
        load_tagging(tmp_path, "small", "ner")


# The real sets


def test_the_real_sets():
    default = Path(__file__).parents[2] / "shared" / "data" / "text"
    folder = Path(os.environ.get("SKLEARN_META_TEXT", default))
    if not (folder / "seqtag").is_dir():
        pytest.skip(f"no seqtag in {folder}: set SKLEARN_META_TEXT to a folder with it")
    train, test = (load_tagging(folder, "crossner", "ner", split) for split in ("train", "test"))
    assert list(train) == list(test) == ["ai", "literature", "music", "politics", "science"]
    assert {domain: len(sentences) for domain, (sentences, _) in train.items()} == {
        "ai": 100,
        "literature": 100,
        "music": 100,
        "politics": 200,
        "science": 200,
    }
    packed = pd.read_parquet(folder / "seqtag" / "crossner.parquet")
    music = packed[(packed["domain"] == "music") & (packed["split"] == "test")]
    assert [list(tags) for tags in music["ner"]] == test["music"][1]  # it is IOB2 already
    assert [list(tokens) for tokens in music["tokens"]] == test["music"][0]
    (sentences, tags), languages = test["music"], load_tagging(folder, "conll2002", "pos", "test")
    assert {len(sentence) - len(row) for sentence, row in zip(sentences, tags)} == {0}
    assert list(languages) == ["esp", "ned"]


def test_a_shared_task_may_have_bytes_that_are_no_ascii(tmp_path):
    (tmp_path / "train.txt").write_bytes("café NN B-NP\n".encode("latin-1"))
    assert load_conll_folder(tmp_path, "conll2000")["pos"] == ([["café"]], [["NN"]])


def test_a_new_document_is_a_new_sentence(write):
    path = write("Ann NNP\n-DOCSTART- -X-\nBen NNP\n", "documents.txt")
    assert read_conll(path, 1)[0] == [["Ann"], ["Ben"]]


def test_a_feature_in_both_columns_is_that_of_feats(conllu, write):
    path = write("1\tdir\tdire\tVERB\tV\tNumber=Sing\t0\troot\t_\tNumber=Plur\n\n")
    assert read_conllu(path, "Number") == ([["dir"]], [["Sing"]])


def test_parquet_with_fewer_tags_than_tokens(table, tmp_path):
    table.at[0, "pos"] = ["N"]
    table.to_parquet(tmp_path / "seqtag" / "small.parquet")
    with pytest.raises(ValueError, match="sentence 0 of politics, .* has 2 tokens and 1 tags"):
        load_tagging(tmp_path, "small", "pos")

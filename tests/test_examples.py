"""The quickstart, in its quick form, and the README's code run as users would run them."""

import csv
import re
import runpy
import sys
from pathlib import Path

import matplotlib.image
import pytest
from processes import ended, started

ROOT = Path(__file__).parents[1]
METHODS = {"sklearn_meta", "LabelSpreading", "GaussianProcess", "LogisticRegression"}
METHODS |= {"RandomForest"}


def run_quickstart(stdout, arguments):
    """Run it as its own program, in a process that has imported the package."""
    sys.argv[1:] = arguments
    with open(stdout, "w", encoding="utf-8") as sys.stdout:
        runpy.run_path(str(ROOT / "examples" / "quickstart.py"), run_name="__main__")


@pytest.fixture(scope="module")
def quickstart(tmp_path_factory):
    """Return what the quick form prints, and the folder that it writes to."""
    folder = tmp_path_factory.mktemp("quickstart") / "output"
    stdout = folder.with_name("stdout")
    assert ended(started(run_quickstart, stdout, ["--quick", "--output", str(folder)])) == 0
    return stdout.read_text("utf-8"), folder


def test_quickstart_writes_a_score_for_each_table_shot_and_method(quickstart):
    _, folder = quickstart
    with open(folder / "quickstart.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    keys = {(row["table"], row["shots"], row["method"], row["split"]) for row in rows}
    expected = {
        (table, shots, method, "0")
        for table in ("iris", "wine")
        for shots in ("1", "3", "5")
        for method in METHODS
    }
    assert keys == expected
    assert len(rows) == len(expected)
    assert all(1 / 3 < float(row["accuracy"]) <= 1 for row in rows)  # three classes


def test_quickstart_prints_the_table_the_weights_and_the_files(quickstart):
    stdout, folder = quickstart
    assert "Weights: default" in stdout
    header, iris, wine, mean = stdout[stdout.index("labelled rows a class: 5") :].splitlines()[:4]
    assert METHODS <= set(header.split())
    ours = [float(line.split()[1]) for line in (iris, wine, mean)]
    assert ours[2] == pytest.approx(sum(ours[:2]) / 2, abs=0.001)
    assert str(folder / "quickstart.csv") in stdout
    assert str(folder / "quickstart.png") in stdout


def test_quickstart_draws_a_picture(quickstart):
    _, folder = quickstart
    image = matplotlib.image.imread(folder / "quickstart.png")
    assert min(image.shape[:2]) > 300
    assert image[..., :3].std() > 0.05  # not a blank page


def test_code_of_the_readme_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MPLBACKEND", "Agg")
    text = (ROOT / "README.md").read_text("utf-8")
    code = "\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
    # The same code with less training, less data, and another place for checkpoints.
    for long, short in {
        "as_frame=True)\nlabelled": "as_frame=True)\nX, y = X[:240], y[:240]\nlabelled",
        "20_000": "1",
        "checkpoints/mine": str(tmp_path),
        "max_epochs=20": "max_epochs=1",
        '"english_names").fit': '"english_names", max_epochs=1).fit',
        "embedding_size=16, random": "embedding_size=16, max_epochs=1, random",
        "n_splits=10": "n_splits=3",
        "table[20:]": "table[20:60]",
        "target[20:]": "target[20:60]",
        "range(200)": "range(20)",
        "[:1300]": "[:200]",
        "[1300:]": "[1700:]",
    }.items():
        assert long in code
        code = code.replace(long, short)
    names = {}
    exec(code, names)
    printed = capsys.readouterr().out
    assert float(re.search(r"cross-validated: (0\.\d+)", printed)[1]) > 0.8
    assert len(names["specialist"].history_) == 1
    assert list(tmp_path.iterdir())

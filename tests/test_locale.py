"""Files are written in UTF-8, whatever the locale is: Windows has another one by default."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PARTS = ["sklearn_meta", "examples", "benchmarks"]
#: Methods that have a file's encoding as an argument, and its place.
PLACES = {"read_text": 0, "write_text": 1}


def names_no_encoding(call):
    """Whether a call opens a file as text, in whatever encoding the locale has."""
    if any(keyword.arg == "encoding" for keyword in call.keywords):
        return False
    if (method := getattr(call.func, "attr", None)) in PLACES:
        return len(call.args) <= PLACES[method]
    mode = ast.unparse(call.args[1]) if len(call.args) > 1 else "'r'"
    return getattr(call.func, "id", None) == "open" and "b" not in mode


@pytest.mark.parametrize(
    "code, is_wrong",
    [
        ("open(path)", True),
        ("open(path, 'w', newline='')", True),
        ("open(path, 'w', encoding='utf-8')", False),
        ("open(path, 'rb')", False),
        ("path.read_text()", True),
        ("path.read_text('utf-8')", False),
        ("path.write_text(text)", True),
        ("path.write_text(text, encoding='utf-8')", False),
    ],
)
def test_calls_without_an_encoding_are_found(code, is_wrong):
    assert names_no_encoding(ast.parse(code).body[0].value) == is_wrong


@pytest.mark.parametrize("part", PARTS)
def test_files_are_opened_with_an_encoding(part):
    wrong = []
    for path in (ROOT / part).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and names_no_encoding(node):
                wrong.append(f"{path}:{node.lineno}: {ast.unparse(node)}")
    assert not wrong


SCRIPT = r"""
import sys
from types import SimpleNamespace

from sklearn_meta.__main__ import main
from sklearn_meta.callbacks import CSVLog

history = [{"train_loss": 1.0, "pr\xe9cision": 0.5}]
CSVLog("log.csv").on_epoch_end(SimpleNamespace(history=history))
sys.stderr = None  # as of a program without a console
print("exit code", main(["info", "no_\u2126"]))
"""


def test_a_locale_without_a_sign_loses_no_log_and_no_exit_code(tmp_path):
    ascii_alone = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    env = os.environ | ascii_alone | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    told = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=tmp_path, env=env, capture_output=True
    )
    assert told.stdout.strip() == b"exit code 1", told.stderr.decode()
    assert "précision" in (tmp_path / "log.csv").read_text("utf-8")

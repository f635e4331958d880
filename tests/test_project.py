"""Rules for the whole project: versions, pins, lazy imports, and which module imports which."""

import ast
import graphlib
import importlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import sklearn_meta
from sklearn_meta.commands import info

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "sklearn_meta"
FILES = sorted(PACKAGE.rglob("*.py"))
METADATA = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]

# Imports run one way: estimators -> base -> training -> tasks; estimators -> backbones, heads.
ESTIMATORS = [
    *("tables", "semi_supervised", "gaussian_process", "outliers"),
    *("mixture", "mixture_jobs", "fitted_mixture", "sets", "memory", "rows", "few_shot", "text"),
]
COMMAND_LINE = ["commands", "__main__"]
ABOVE_TRAINING = [
    *("base", "inspection", "model_selection", "evaluation"),
    *ESTIMATORS,
    *COMMAND_LINE,
]
MUST_NOT_IMPORT = {
    "backbones": ["sklearn", "skorch", "heads", "tasks", "training", "weights", *ABOVE_TRAINING],
    "heads": ["sklearn", "skorch", "backbones", "tasks", "training", "weights", *ABOVE_TRAINING],
    "learner": ["sklearn", "skorch", "training", *ABOVE_TRAINING],
    "class_groups": ["sklearn", "skorch", "learner", "tasks", "training", *ABOVE_TRAINING],
    "means": ["sklearn", "skorch", "backbones", "heads", "tasks", "training", *ABOVE_TRAINING],
    "label_columns": ["sklearn", "skorch", "backbones", "heads", "tasks", *ABOVE_TRAINING],
    "mixture_learner": ["sklearn", "skorch", "learner", "training", *ABOVE_TRAINING],
    "memory_learner": ["sklearn", "skorch", "learner", "tasks", "training", *ABOVE_TRAINING],
    "few_shot_learner": ["sklearn", "skorch", "learner", "tasks", "training", *ABOVE_TRAINING],
    "text_learner": ["sklearn", "skorch", "learner", "tasks", "training", *ABOVE_TRAINING],
    "tournament": ["sklearn", "skorch", "learner", "tasks", "training", *ABOVE_TRAINING],
    "tasks": ["backbones", "heads", "learner", "training", *ABOVE_TRAINING],
    "training": ABOVE_TRAINING,
    "meta_net": ["learner", "tasks", "training", *ABOVE_TRAINING],
    "callbacks": ["learner", "tasks", "training", *ABOVE_TRAINING],
    "optimizers": ["sklearn", "skorch", "learner", "tasks", "training", *ABOVE_TRAINING],
    "checkpoint": ["learner", "tasks", "training", *ABOVE_TRAINING],
    "seeding": ["sklearn", "skorch", "learner", "tasks", "training", *ABOVE_TRAINING],
    "settings": ["torch", "skorch", "learner", "tasks", "training", *ABOVE_TRAINING],
    "sizes": ["sklearn", "skorch", "torch", "learner", "tasks", "training", *ABOVE_TRAINING],
    "fingerprint": ["sklearn", "skorch", "learner", "tasks", "training", *ABOVE_TRAINING],
    "folders": ["sklearn", "skorch", "torch", "learner", "tasks", "training", *ABOVE_TRAINING],
    "devices": ["sklearn", "skorch", "learner", "tasks", "training", *ABOVE_TRAINING],
    "distributed": ["callbacks", "learner", "tasks", "training", *ABOVE_TRAINING],
    "tables": ["semi_supervised", "gaussian_process", *COMMAND_LINE],
    "base": ["inspection", "model_selection", "evaluation", *ESTIMATORS, *COMMAND_LINE],
    "model_selection": ["torch", "training", "base", "evaluation", *ESTIMATORS, *COMMAND_LINE],
    "evaluation": ["torch", "skorch", "training", "base", "weights", *ESTIMATORS, *COMMAND_LINE],
    "commands": ["skorch", "__main__"],
}


def module_name(path):
    """Dotted name of a file of the package."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in FILES}


def imports(name, path, source=None):
    """Dotted names that a module imports, anywhere in it and in any spelling."""
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    found = set()
    for node in ast.walk(ast.parse(source or path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            # `from . import x` may name a module, or something in a module.
            found |= {
                inner if (inner := f"{base}.{alias.name}") in MODULES else base
                for alias in node.names
            }
    return found


def is_or_is_in(name, module):
    return name == module or name.startswith(module + ".")


def test_imports_are_read_in_every_spelling():
    source = """
import sklearn.base as b, os
from . import dataset
from .episodes import Task
from ..heads import Prototypes
def late():
    from sklearn_meta import base
"""
    found = imports("sklearn_meta.tasks.prior", Path("prior.py"), source)
    assert {"sklearn.base", "os", "sklearn_meta.tasks.episodes", "sklearn_meta.heads"} <= found
    assert found & {"sklearn_meta.tasks.dataset", "sklearn_meta.tasks"}
    assert found & {"sklearn_meta.base", "sklearn_meta"}


@pytest.mark.parametrize("layer", MUST_NOT_IMPORT)
def test_imports_run_one_way(layer):
    ours = {name for name in MODULES if is_or_is_in(name, f"sklearn_meta.{layer}")}
    assert ours, f"there is no sklearn_meta.{layer}"
    outside = {"sklearn", "skorch", "torch"}
    forbidden = [m if m in outside else f"sklearn_meta.{m}" for m in MUST_NOT_IMPORT[layer]]
    wrong = [
        f"{name} imports {imported}"
        for name in sorted(ours)
        for imported in sorted(imports(name, MODULES[name]))
        if any(is_or_is_in(imported, module) for module in forbidden)
    ]
    assert not wrong


def test_no_circle_of_imports():
    graph = {name: imports(name, path) & MODULES.keys() - {name} for name, path in MODULES.items()}
    order = list(graphlib.TopologicalSorter(graph).static_order())  # raises CycleError
    assert len(order) == len(MODULES)


@pytest.mark.parametrize("path", FILES, ids=module_name)
def test_no_module_is_long(path):
    assert len(path.read_text("utf-8").splitlines()) <= 400


def test_importing_does_not_import_torch():
    """All are imported in one process: what that process has not imported, none of them imports."""
    names = ["sklearn_meta"]
    names += [f"sklearn_meta.{part}" for part in ("model_selection", "inspection", "evaluation")]
    code = f"import sys, {', '.join(names)}; print(*sys.modules)"
    run = [sys.executable, "-c", code]
    loaded = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert set(names) <= set(loaded.split())
    assert not {"torch", "skorch"} & set(loaded.split())


def test_version_is_the_distributions():
    assert sklearn_meta.__version__ == METADATA["version"]
    assert f"## {METADATA['version']}" in (ROOT / "CHANGELOG.md").read_text("utf-8")


@pytest.mark.parametrize("name", sklearn_meta.__all__)
def test_public_names_are_there_and_documented(name):
    public = getattr(sklearn_meta, name)
    assert public.__name__ == name
    assert len(public.__doc__) > 100
    assert name in dir(sklearn_meta)


@pytest.mark.parametrize("name", ["model_selection", "inspection"])
def test_documented_names_of_the_helper_modules(name):
    module = importlib.import_module(f"sklearn_meta.{name}")
    assert all(len(getattr(module, public).__doc__) > 100 for public in module.__all__)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="sklearn_meta.*'nothing'"):
        sklearn_meta.nothing  # noqa: B018


def normalised(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def test_every_dependency_has_one_exact_pin():
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    lines = [line for line in lines if line and not line.startswith("#")]
    assert not [line for line in lines if not re.fullmatch(r"[\w.-]+==[\w.]+", line)]
    pinned = [normalised(line.split("==")[0]) for line in lines]
    assert len(pinned) == len(set(pinned))
    wanted = METADATA["dependencies"] + sum(METADATA["optional-dependencies"].values(), [])
    assert {normalised(re.match(r"[\w.-]+", line)[0]) for line in wanted} <= set(pinned)
    assert not [line for line in wanted if "==" in line]  # versions are in constraints.txt only


EXTRAS = METADATA["optional-dependencies"]


def test_the_extra_for_tests_has_all_others():
    assert set(sum(EXTRAS.values(), [])) == set(EXTRAS["test"])


def test_info_tells_of_the_packages_of_every_extra():
    wanted = sum((EXTRAS[name] for name in EXTRAS if name != "test"), [])
    assert {re.match(r"\w+", line)[0] for line in wanted} == set(info._OPTIONAL)


def test_every_extra_is_in_the_readme_and_its_code_runs_after_its_install_line():
    readme = (ROOT / "README.md").read_text("utf-8")
    install = readme.split("## Install")[1].split("\n## ")[0]
    assert set(EXTRAS) <= set(re.findall(r"`([a-z]+)`", install))
    (installed,) = re.findall(r'pip install .*"\.\[(.*)\]"', install)
    # The README's first block makes a DataFrame, and another block draws.
    assert {"tables", "plot"} <= set(installed.split(","))
    assert "as_frame=True" in readme and {"pandas>=2.2.2", "pyarrow>=18"} == set(EXTRAS["tables"])


def test_extras_that_messages_and_documents_name_are_there():
    files = [*FILES, ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    texts = {file: file.read_text("utf-8") for file in files}
    # In double quotes: the command line of Windows takes others as part of the name.
    assert not [file for file, text in texts.items() if "'.[" in text or "'sklearn_meta[" in text]
    named = {
        (file.name, extra)
        for file, text in texts.items()
        for extras in re.findall(r"sklearn[_-]meta\[([a-z,]+)\]", text)
        for extra in extras.split(",")
    }
    assert {extra for _, extra in named} <= set(EXTRAS)
    expected = {"images.py": "images", "omniglot.py": "images", "reviews.py": "tables"}
    expected |= {"tagging.py": "text", "drawing.py": "plot", "hub.py": "hub"}
    assert expected.items() <= named


def test_a_source_distribution_holds_what_its_tests_need():
    rules = [
        line.split() for line in (ROOT / "MANIFEST.in").read_text("utf-8").splitlines() if line
    ]
    found = set()
    for kind, *words in rules:
        if kind == "include":
            found |= {ROOT / name for name in words}
        elif kind == "recursive-include":
            found |= {path for pattern in words[1:] for path in (ROOT / words[0]).rglob(pattern)}
    needed = {ROOT / name for name in ("CHANGELOG.md", "constraints.txt", "Makefile")}
    assert all(path.is_file() for path in needed)
    for folder, pattern in (
        *(("tests", "*.py"), ("tests", "*.json")),
        *(("benchmarks", "*.py"), ("examples", "*.py")),
        *(("docs", "*.md"), ("benchmarks", "*.md"), ("benchmarks/results", "*.csv")),
    ):
        needed |= (paths := set((ROOT / folder).rglob(pattern)))
        assert paths
    assert needed <= found
    assert not {path for path in found if path.suffix == ".png"}


@pytest.mark.parametrize(
    "name",
    [
        *("MetaSemiSupervisedClassifier", "MetaGPRegressor", "AmortizedOutlierDetector"),
        *("FewShotTransformerClassifier", "MANNClassifier", "MANNRegressor", "AmortizedGMM"),
    ],
)
def test_what_fit_learned_is_documented(name):
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(12, 2)), columns=["a", "b"])
    fitted = getattr(sklearn_meta, name)().fit(X, np.arange(12) % 2)
    learned = {key for key in vars(fitted) if key.endswith("_") and not key.startswith("_")}
    section = type(fitted).__doc__.split("Attributes\n")[1].split("Examples\n")[0]
    assert len(learned) > 4
    assert not learned - set(re.findall(r"\w+_\b", section))

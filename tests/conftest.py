"""Settings of all tests: one torch thread, repeatable Hypothesis, the folder of real tables."""

import gc
import os
import random
import sys
from pathlib import Path

import numpy as np
import pytest

# pytest rewrites the asserts of tests and of Hypothesis. Keep the result in __pycache__, even where
# Python is set to write no bytecode: rewriting took each process ten seconds or more.
sys.dont_write_bytecode = False


def pytest_collection():
    """Use one torch thread and a repeatable Hypothesis in processes that collect tests.

    The process that only starts the test workers skips this, so it need not import torch.
    """
    gc.disable()  # until collection ends: there is next to no garbage

    import torch
    from hypothesis import HealthCheck, settings
    from tqdm import tqdm

    # The problems are small: a second thread would only wait, and one thread keeps sums repeatable.
    torch.set_num_threads(1)

    # A run fails only because of the change under test, not because of the draw or a busy machine.
    settings.register_profile(
        "ci",
        derandomize=True,
        deadline=None,
        max_examples=20,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("ci")

    # A test that forks while tqdm's monitor thread holds tqdm's lock would wait for it forever.
    tqdm.monitor_interval = 0


def pytest_collection_finish():
    """Collect garbage less often, and skip the thousands of tests, which live to the end.

    This saves a tenth of the time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000)
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup():
    """Seed the generators that a test without ``random_state`` uses, before its fixtures are made.

    A test fails because of the change under test, not because of the draw or of the tests that ran
    before it in the same process.
    """
    import torch

    random.seed(0)
    np.random.seed(0)  # noqa: NPY002 (random_state=None is this generator)
    torch.default_generator.manual_seed(0)


@pytest.fixture(scope="session")
def tables_dir():
    """Folder of parquet tables with an index.csv: ``SKLEARN_META_DATA``, or beside the project."""
    default = Path(__file__).parents[2] / "shared" / "data" / "tabular"
    folder = Path(os.environ.get("SKLEARN_META_DATA", default))
    if not (folder / "index.csv").is_file():
        pytest.skip(f"no tables at {folder}: set SKLEARN_META_DATA to a folder with an index.csv")
    return folder

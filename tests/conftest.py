"""What every test shares: one torch thread, a repeatable Hypothesis, the folder of real tables."""

import gc
import os
import random
import sys
from pathlib import Path

import numpy as np
import pytest

# What pytest makes of asserts, Hypothesis's own among them, is kept (in __pycache__): to make it
# anew took each process ten seconds and more, wherever Python is set to keep no bytecode.
sys.dont_write_bytecode = False


def pytest_collection():
    """One torch thread and a repeatable Hypothesis, in processes that collect tests.

    Two that run them are started by one that does not, and need not wait until it has torch.
    """
    gc.disable()  # until all is collected: next to nothing is garbage

    import torch
    from hypothesis import HealthCheck, settings
    from tqdm import tqdm

    # Many small problems: a second thread only waits for the first, and sums stay repeatable.
    torch.set_num_threads(1)

    # A run fails because of the change under test, never because of the draw or a busy machine.
    settings.register_profile(
        "ci",
        derandomize=True,
        deadline=None,
        max_examples=20,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("ci")

    # A test that forks while tqdm's monitor thread holds tqdm's lock would wait for it for ever.
    tqdm.monitor_interval = 0


def pytest_collection_finish():
    """Look for garbage less often, and not among thousands of tests that live to the end.

    That was a tenth of the time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000)
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup():
    """Seed what a test without ``random_state`` draws from, before its fixtures are made.

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

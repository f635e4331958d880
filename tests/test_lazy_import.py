"""Estimators are imported when they are first used, by whichever thread uses them."""

import threading
import time
from types import SimpleNamespace

import pytest

import sklearn_meta


def test_two_threads_that_ask_first_import_one_after_the_other(monkeypatch):
    names = ["MetaGPRegressor", "MANNClassifier", "MetaLSTMClassifier"]
    for name in names:
        monkeypatch.setitem(vars(sklearn_meta), name, None)  # monkeypatch restores it
    inside = most = 0

    def slowly(home):
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        time.sleep(0.05)
        inside -= 1
        return SimpleNamespace(**dict.fromkeys(names, home))

    monkeypatch.setattr(sklearn_meta, "import_module", slowly)
    threads = [threading.Thread(target=sklearn_meta.__getattr__, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1
    assert sklearn_meta.MANNClassifier == "sklearn_meta.memory"


def test_other_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="no attribute 'MetaSemiSupervisedRegressor'"):
        sklearn_meta.MetaSemiSupervisedRegressor  # noqa: B018


def test_an_error_of_a_library_is_told_and_is_no_missing_name(monkeypatch):
    monkeypatch.setitem(vars(sklearn_meta), "AmortizedGMM", None)  # monkeypatch restores it
    del sklearn_meta.AmortizedGMM

    def fails(home):
        raise AttributeError("module 'numpy' has no attribute 'float'")

    monkeypatch.setattr(sklearn_meta, "import_module", fails)
    with pytest.raises(ImportError, match="AmortizedGMM.*'numpy' has no attribute 'float'.*reinst"):
        from sklearn_meta import AmortizedGMM  # noqa: F401

"""Dates and durations are handled where numbers are expected: targets, points of mixtures."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import clone

from sklearn_meta import AmortizedGMM, MANNRegressor, MetaGPRegressor, SetTransformerRegressor
from sklearn_meta.inspection import IntervalCalibrationDisplay
from sklearn_meta.model_selection import SemiSupervisedKFold

X = np.random.default_rng(0).standard_normal((20, 3))
DAYS = pd.Series(pd.date_range("2020", periods=20))
DATES = {
    "zone": DAYS.dt.tz_localize("UTC"),
    "objects": DAYS.astype(object),
    "list": DAYS.dt.date.tolist(),
    "periods": DAYS.dt.to_period("D"),
    "durations": (DAYS - DAYS[0]).astype(object),
    "columns": pd.DataFrame({"a": 1.0, "b": DAYS}),
}


@pytest.mark.parametrize("y", DATES.values(), ids=DATES)
@pytest.mark.parametrize(
    "estimator", [MetaGPRegressor(), MANNRegressor(), SetTransformerRegressor(max_epochs=1)]
)
def test_targets_that_are_objects_of_dates_are_refused(estimator, y):
    rows = X[:, :, None] if isinstance(estimator, SetTransformerRegressor) else X
    with pytest.raises(ValueError, match="y holds dates or durations: convert them to numbers"):
        estimator.fit(rows, y)


def test_those_of_a_batch_too():
    with pytest.raises(ValueError, match="Task 1: y holds dates"):
        MetaGPRegressor().predict_batch([(X, X[:, 0], X), (X, DAYS.astype(object), X)])


@pytest.mark.parametrize("table", [DAYS.to_frame("day"), pd.DataFrame({"a": 1.0, "b": DAYS})])
def test_points_that_are_dates_are_refused(table):
    with pytest.raises(ValueError, match="^X holds dates or durations"):
        AmortizedGMM(2).fit(table)
    with pytest.raises(ValueError, match="Set 1: X holds dates or durations"):
        AmortizedGMM(2).fit_batch([X, table])
    with pytest.warns(UserWarning, match="Set '1' is not a set of points.*: it holds dates"):
        AmortizedGMM(2).meta_fit([X, table], max_steps=1, eval_every=1, verbose=False)


@pytest.mark.parametrize(
    "dates", [DAYS.to_frame("day"), DAYS.to_numpy()[:, None], DAYS.astype(object).to_frame("day")]
)
def test_a_mixture_of_numbers_is_not_asked_for_dates(dates):
    """Dates would become nanoseconds, which belong to one component without doubt."""
    mixture = AmortizedGMM(2).fit(pd.DataFrame({"day": X[:, 0]}))
    for ask in (mixture.predict, mixture.score_samples):
        with pytest.raises(
            ValueError, match="^X holds dates or durations: convert them to numbers"
        ):
            ask(dates)


def test_a_set_of_another_type_is_named():
    with pytest.raises(ValueError, match="Set 1: Sparse data was passed"):
        AmortizedGMM(2).fit_batch([X, csr_matrix(X)])


@pytest.mark.parametrize("one", [X, pd.DataFrame(X)], ids=["array", "frame"])
def test_one_set_is_not_taken_for_many(one):
    with pytest.raises(ValueError, match=r"give a single set as a list, \[X\]"):
        AmortizedGMM(2).fit_batch(one)
    with pytest.raises(ValueError, match=r"give a single set as a list, \[X\]"):
        AmortizedGMM(2).meta_fit(one)
    with pytest.raises(ValueError, match=r"give a single set as a list, \[\(X, y\)\]"):
        AmortizedGMM(2).meta_fit((one, np.arange(20) % 2))
    assert len(AmortizedGMM(2).fit_batch(np.stack([X, X]))) == 2
    assert len(AmortizedGMM(2).fit_batch((X, X[:9]))) == 2


@pytest.mark.parametrize("unit", ["D", "ns"])
@pytest.mark.parametrize("kind", ["M8", "m8"])
def test_a_date_that_is_missing_is_a_missing_target(kind, unit):
    # As an integer NaT is the least of all, and would make a prediction of -2.9e18.
    y = np.arange(20, dtype="i8").astype(f"{kind}[{unit}]")
    known = MetaGPRegressor().fit(X, y)
    y[3] = "NaT"
    rows, sets = X[:, None], SetTransformerRegressor(max_epochs=1, width=8)
    scores = MANNRegressor().fit(X, X[:, 0]).score, clone(sets).fit(rows, X[:, 0]).score
    for told in (y, pd.Series(y)):
        fits = MANNRegressor().fit, MANNRegressor().partial_fit, known.log_predictive_density
        for ask in (*fits, scores[0], lambda _, y: scores[1](rows, y)):
            with pytest.raises(ValueError, match="Input (y )?contains NaN"):
                ask(X, told)
        with pytest.raises(ValueError, match="Input y contains NaN"):
            sets.fit(rows, told)
        with pytest.raises(ValueError, match="must be finite: leave unlabelled rows out"):
            IntervalCalibrationDisplay.from_estimator(known, X, told)


@pytest.mark.parametrize("y", DATES.values(), ids=DATES)
def test_targets_that_are_asked_about_are_no_objects_of_dates_either(y):
    known = MetaGPRegressor().fit(X, X[:, 0])
    for ask in (
        known.log_predictive_density,
        partial(IntervalCalibrationDisplay.from_estimator, known),
    ):
        with pytest.raises(ValueError, match="y holds dates or durations"):
            ask(X, y)


@pytest.mark.parametrize("kind", ["zone", "objects", "periods", "columns"])
def test_a_splitter_refuses_what_estimators_do(kind):
    with pytest.raises(ValueError, match="^y must be numbers, such as seconds of dates"):
        next(SemiSupervisedKFold(2).split(X, DATES[kind]))

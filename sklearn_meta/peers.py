"""scikit-learn classifiers to compare with, ready for tables with categories and missing cells."""

import numpy as np
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    OneHotEncoder,
    OrdinalEncoder,
    StandardScaler,
)
from sklearn.semi_supervised import LabelSpreading, SelfTrainingClassifier

from .cells import is_missing
from .model_selection import Transductive


def peers():
    """scikit-learn classifiers to compare with; they accept categories and missing cells.

    Each is a :class:`~sklearn_meta.model_selection.Transductive` around :func:`preparation` and the
    classifier, so that imputers and scalers see the unlabelled rows, too; fitted on 3 labelled rows
    alone, they would harm every classifier. Only label spreading learns from the unlabelled rows.

    Returns
    -------
    dict of str to Transductive
        "LabelSpreading", "GaussianProcess", "LogisticRegression", "RandomForest" and "1-NN". Kernel
        widths grow with the number of columns, as distances do; all other settings are
        scikit-learn's defaults.
    """

    def peer(*steps):
        return Transductive(make_pipeline(preparation(), *steps))

    def supervised(classifier):
        return SelfTrainingClassifier(classifier, max_iter=0)  # fits the labelled rows alone

    shrink = FunctionTransformer(_shrink).set_output(transform="default")
    return {
        "LabelSpreading": peer(shrink, LabelSpreading(gamma=1.0)),
        "GaussianProcess": peer(shrink, supervised(GaussianProcessClassifier(optimizer=None))),
        "LogisticRegression": peer(supervised(LogisticRegression())),
        "RandomForest": peer(supervised(RandomForestClassifier(random_state=0))),
        "1-NN": peer(supervised(KNeighborsClassifier(1))),
    }


def preparation():
    """Transformer from raw tables to finite numbers.

    In numeric columns, including dates, as this package's estimators read them, missing cells get
    the column's mean; then the columns are scaled to zero mean and unit variance. In all other
    columns missing cells, and categories that ``fit`` has not seen, get the most frequent category;
    then the columns are one-hot encoded and left as 0 and 1, with one column for two categories.

    Returns
    -------
    ColumnTransformer
        Takes a DataFrame or an ndarray and returns a dense ndarray.
    """
    numbers = make_pipeline(
        FunctionTransformer(_as_float), SimpleImputer(keep_empty_features=True), StandardScaler()
    )
    categories = make_pipeline(
        FunctionTransformer(_as_text),
        OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan),
        SimpleImputer(strategy="most_frequent", keep_empty_features=True),
        OneHotEncoder(drop="if_binary", sparse_output=False),
    )
    of_both = make_column_transformer((numbers, _numbers), remainder=categories)
    return of_both.set_output(transform="default")


def _numbers(X):
    """Positions of the columns that our estimators read as numbers, except booleans."""
    from .tasks.column_types import columns_of, read_column  # imports torch

    numbers = []
    for j, (values, dtype) in enumerate(columns_of(X)):
        booleans = values.dtype.kind == "b"
        if values.dtype == object:  # a column without any known cell counts as booleans, too
            known = values[~is_missing(values)]
            booleans = all(isinstance(value, bool | np.bool_) for value in known)
        if len(values) and not booleans and read_column(values, dtype).dtype != object:
            numbers.append(j)
    return numbers


def _as_float(X):
    """Convert the columns of a table to float; dates and durations to seconds."""
    from .tasks.column_types import columns_of, to_float

    return np.column_stack([to_float(values) for values, _ in columns_of(X)])


def _as_text(X):
    """Convert categories of any type to str; missing cells become NaN."""
    X = np.asarray(X, dtype=object)
    missing = is_missing(X.ravel()).reshape(X.shape)
    return np.where(missing, np.nan, np.vectorize(str, otypes=[object])(X))


def _shrink(X):
    """Scale rows so that their distances do not grow with the number of columns."""
    return X / np.sqrt(X.shape[1])

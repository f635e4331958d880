"""What estimators share whose network reads rows of one fixed length."""

from numbers import Integral

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils import assert_all_finite, check_array, gen_batches
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_X_y, validate_data
from torch import nn

from .base import MetaEstimator
from .cells import whole_labels
from .learner import as_text
from .table_validation import as_cells, check_labels, encode
from .tasks import TableEncoder, Tables, as_dataset, rows_as_they_are


class RowEstimator(MetaEstimator):
    """Base class of the estimators that read rows as vectors, of tables or as they are.

    Which of both it is, is said by ``inputs`` of the learner, a ``_learner_class``, and the length
    of the vectors by its ``n_inputs``. Weights for "tables" read any columns: ``encoder_`` makes
    numbers of them. Subclasses say by ``_forget`` how to be as before ``fit``.
    """

    _parameter_constraints = {
        "backbone": "no_validation",
        "n_estimators": [Interval(Integral, 1, None, closed="left")],
        "chunk_size": [Interval(Integral, 1, None, closed="left")],
        "device": [str],
        "dtype": [StrOptions({"float32", "float64"})],
        "random_state": ["random_state"],
    }

    def _new_learner(self, backbone):
        if isinstance(backbone, self._learner_class):
            return backbone
        if isinstance(backbone, nn.Module):
            raise ValueError(
                f"backbone is a {type(backbone).__name__}: give a {self._learner_class.__name__}, "
                "which holds one."
            )
        return self._of_architecture(backbone)

    def _of_architecture(self, name):
        """A learner of random weights."""
        return self._learner_class(name)

    def _seed(self, *of):
        return np.random.default_rng([self._seed_of_fit, *of])

    @property
    def _seed_of_fit(self):
        """Drawn by ``fit``; before it, or of those pickled before it was drawn, the parameter."""
        return vars(self).get("_drawn", self.random_state or 0)

    def _source(self, datasets, **options):
        """As of all estimators, with rows as ``fit`` reads them."""
        tables = self._starting_learner(0).inputs == "tables"
        make = as_dataset if tables else rows_as_they_are
        return super()._source(datasets, make=make, **options)

    def _sources(self, learner, as_they_are, *datasets):
        """A source of each, whose rows a network of pictures can read if it is given them so."""
        sources = [self._source(one) for one in datasets]
        if as_they_are and learner.inputs in ("images", "pixels"):
            for one in sources:
                _check_pictures(one, learner)
        return sources

    def _chunks(self, n_rows):
        """Slices of the rows that are read at a time; one, if there is none."""
        return gen_batches(max(n_rows, 1), int(self.chunk_size))  # it may be numpy's

    @staticmethod
    def _check_width(vectors, learner):
        """Refuse ``vectors`` of ``meta_fit`` that make other rows than the network reads."""
        if getattr(vectors, "width", learner.n_inputs) != learner.n_inputs:
            raise ValueError(
                f"vectors makes rows of {vectors.width} values, and the network reads "
                f"{learner.n_inputs}."
            )

    def _rows(self, X, y="no_validation", *, reset):
        """Rows as float64, in columns that the network can be given, and ``y`` if there is one."""
        if reset:
            self._forget()  # what fails here leaves nothing of the task before
            self.learner_ = self._learner()
            self._drawn = self._seed_of_all()
        X = as_cells(X)
        table, has_y = self.learner_.inputs == "tables", not isinstance(y, str)
        y = whole_labels(y) if is_classifier(self) else y
        numeric = {"y_numeric": not is_classifier(self)} if has_y else {}
        if has_y and y is not None and is_classifier(self):
            check_labels(y)
        if hasattr(X, "iloc") and table:  # DataFrames stay as they are
            validate_data(self, X, reset=reset, skip_check_array=True)
            checked = check_array(np.zeros(X.shape), estimator=self)
            if has_y:
                checked = X, check_X_y(checked, y, estimator=self, **numeric)[1]
            else:
                checked = X
        else:
            finite = {"dtype": None if table else np.float64, "ensure_all_finite": not table}
            labels = {"y": y} if has_y else {}
            checked = validate_data(self, X, reset=reset, **labels, **numeric, **finite)
        X, y = checked if has_y else (checked, None)
        if has_y and not is_classifier(self):
            y = _as_numbers(y)
        if reset:
            vars(self).pop("encoder_", None)
        if table:
            if reset:
                self.encoder_ = TableEncoder().fit(X)
            X = encode(self.encoder_, X)
        elif X.shape[1] != self.learner_.n_inputs:
            raise ValueError(
                f"X has {X.shape[1]} features, and backbone={as_text(self.backbone)} reads vectors "
                f"of {self.learner_.n_inputs}: bring rows to that length, or choose weights for "
                "tables, which read any number of columns."
            )
        elif np.abs(X).max(initial=0) > np.finfo(np.float32).max:
            raise ValueError("Input X contains infinity or a value too large for float32.")
        elif self.learner_.inputs == "pixels":
            check_pixels(X)
        return X, y

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags


def _are_pixels(X):
    """Whether values are in [0, 1], but for what interpolation rounds."""
    return -1e-6 <= X.min() and X.max() <= 1 + 1e-6


def check_pixels(X):
    """Refuse other values, such as bytes, which a network of pixels has never seen."""
    if not _are_pixels(X):
        raise ValueError(
            f"Pixels must be in [0, 1], got {X.min():g} to {X.max():g}: divide by 255, if "
            "they are bytes."
        )


def _check_pictures(source, learner):
    """Refuse a source, if there is one, whose rows are no pictures as the network reads them."""
    if source is None:
        return
    each = [source[name] for name in source] if isinstance(source, Tables) else []
    for dataset in each or [source.draw(np.random.default_rng(0))]:
        drawn = dataset.X
        is_rows = drawn.dtype.kind == "f" and drawn.shape[1:] == (learner.n_inputs,)
        if not (is_rows and _are_pixels(drawn)):
            raise ValueError(
                f"The network reads pixels in [0, 1], and datasets hold {drawn.dtype} of shape "
                f"{drawn.shape[1:]}, {drawn.min():g} to {drawn.max():g}. A classifier may be given "
                "vectors, such as Pictures(side), or Drawings(side) of drawings, which render and "
                "augment them."
            )


def _as_numbers(y):
    try:
        y = y.astype(np.float64)
    except ValueError as error:
        raise ValueError(f"Targets must be numbers: {error}.") from error
    assert_all_finite(y, input_name="y")  # None has become NaN only now
    return y

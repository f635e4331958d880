"""Base of the estimators whose network reads rows of one fixed length."""

from inspect import signature
from numbers import Integral

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils import assert_all_finite, gen_batches
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import validate_data
from torch import nn

from .base import MetaEstimator
from .cells import whole_labels
from .learner import as_text
from .table_validation import (
    as_cells,
    check_labels,
    encode,
    table_with_labels,
    validated_table,
    warn_of_strangers,
)
from .tasks import TableEncoder, Tables, as_dataset, rows_as_they_are
from .tasks.column_types import targets_as_numbers
from .tasks.sources import parts_of
from .training import meta_train
from .user_warnings import warn

#: Values of ``inputs`` of learners whose rows are pixels.
PICTURES = ("images", "pixels")

#: Pictures with no pixel as bright as this are refused: bytes of 0 and 1 in place of 0 and 255,
#: and bytes divided by 255 twice, reach 1 / 255 at most.
FAINTEST = 2 / 255

#: Arguments of ``meta_train`` that estimators set and users do not.
_OWN = {"learner", "source", "sampler", "validation_source", "device", "random_state", "start"}


class RowEstimator(MetaEstimator):
    """Base class of the estimators that read rows as vectors, made from tables or used as they are.

    The learner, a ``_learner_class``, tells by ``inputs`` which of the two it reads, and by
    ``n_inputs`` how long the vectors are. Weights for "tables" read any columns: ``encoder_``
    converts them to numbers. Subclasses set ``_draws_none_of``, which tells why ``meta_fit`` takes
    no ``n_shots`` or ``n_unlabelled``.
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
                f"backbone must be a {self._learner_class.__name__}, which holds the network, got "
                f"a {type(backbone).__name__}."
            )
        return self._of_architecture(backbone)

    def _of_architecture(self, name):
        """Create a learner with random weights."""
        return self._learner_class(name)

    def _generator(self, *of):
        return np.random.default_rng([self._seed_of_fit, *of])

    @property
    def _seed_of_fit(self):
        """Seed drawn by ``fit``; before ``fit``, the parameter ``random_state``."""
        return vars(self).get("_drawn", self.random_state or 0)

    def _source(self, datasets, **options):
        """As in the base class, with rows as ``fit`` reads them."""
        tables = self._starting_learner(0).inputs == "tables"
        make = as_dataset if tables else rows_as_they_are
        return super()._source(datasets, make=make, **options)

    def _reader(self, learner, vectors):
        """Function that converts datasets to a source and checks that the network can read it."""
        if vectors is not None and (isinstance(vectors, type) or not callable(vectors)):
            raise ValueError(
                f"vectors must be a callable, such as Drawings(28), or None, got {vectors!r}."
            )
        width = getattr(vectors, "width", learner.n_inputs)
        if width != learner.n_inputs:
            raise ValueError(
                f"vectors makes rows of {width} values, but the network is expecting "
                f"{learner.n_inputs}."
            )

        def read(datasets):
            source = self._source(datasets)
            for dataset in _some_of(source):
                if vectors is not None:
                    _check_rendered(dataset, vectors, learner)
                elif learner.inputs in PICTURES:
                    _check_pictures(dataset, learner)
            return source

        return read

    def _meta_train(self, *args, **settings):
        """As in the base class, after checking the ``settings`` that ``meta_fit`` does not name."""
        if refused := {"n_shots", "n_unlabelled"} & settings.keys():
            raise ValueError(
                f"{type(self).__name__} is meta-trained on "
                + self._draws_none_of.format(" and ".join(sorted(refused)))
            )
        taken = signature(meta_train).parameters.keys() - _OWN
        for unknown in settings.keys() - taken:
            raise TypeError(
                f"{type(self).__name__}.meta_fit() got an unexpected keyword argument {unknown!r}"
            )
        return super()._meta_train(*args, **settings)

    def _chunks(self, n_rows):
        """Slices of the rows that are read at a time; a single slice if there are no rows."""
        return gen_batches(max(n_rows, 1), int(self.chunk_size))  # may be a numpy integer

    def _new_encoder(self):
        return TableEncoder(marks=True)

    def _rows_and_labels(self, X, y, *, reset):
        """Validated rows of ``fit`` or ``partial_fit``, as in ``_asked_rows``, and their labels."""
        if reset:
            self._forget()  # a failure below leaves nothing of the previous task
            self.learner_ = self._learner()
            self._drawn = self._seed_of_all()
        is_numeric = not is_classifier(self)
        if is_numeric:
            y = targets_as_numbers(y)
        elif y is not None:
            y = whole_labels(y)
            check_labels(y)
        checks = {"reset": reset, "y_numeric": is_numeric}
        table = self.learner_.inputs == "tables"
        if table:
            X, y = table_with_labels(self, X, y, **checks)
        else:
            X, y = validate_data(self, as_cells(X), y, dtype=np.float64, **checks)
        if is_numeric:
            y = _as_numbers(y)
        if reset:
            vars(self).pop("encoder_", None)
        if not table:
            return self._checked_vectors(X), y
        if reset:
            self.encoder_ = self._new_encoder().fit(X)
        encoded = encode(self.encoder_, X)
        if not reset and (unseen := self.encoder_.unseen_categories(X)):
            warn(
                f"Columns {unseen} hold categories that were not in the first call: they are read "
                "as missing cells. Include every category in the first call, or give the columns "
                "a dtype category that declares them."
            )
        return encoded, y

    def _asked_rows(self, X):
        """Rows to predict as float64, with columns encoded, or vectors checked, for the network."""
        if self.learner_.inputs != "tables":
            X = validate_data(self, as_cells(X), reset=False, dtype=np.float64)
            return self._checked_vectors(X)
        X = validated_table(self, X, reset=False)
        encoded = encode(self.encoder_, X)
        warn_of_strangers(self.encoder_, X)
        return encoded

    def _checked_vectors(self, X):
        """Return vectors or pixels unchanged; raise if the network cannot read them."""
        if X.shape[1] != self.learner_.n_inputs:
            raise ValueError(
                f"X has {X.shape[1]} features, but backbone={as_text(self.backbone)} is expecting "
                f"{self.learner_.n_inputs} features: bring rows to that length, or choose weights "
                "for tables, which read any number of columns."
            )
        if np.abs(X).max(initial=0) > np.finfo(np.float32).max:
            raise ValueError("Input X contains infinity or a value too large for float32.")
        if self.learner_.inputs in PICTURES:
            _check_pixels(X, self.learner_.n_channels)
        return X

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags


def _are_pixels(X):
    """Whether values are in [0, 1], up to rounding by interpolation."""
    return -1e-6 <= X.min() and X.max() <= 1 + 1e-6


def _are_faint(X):
    """Whether pixels are so dark that bytes were probably divided by 255 twice."""
    return 0 < X.max() < FAINTEST


def _check_pixels(X, n_channels):
    """Refuse values outside [0, 1], such as bytes: the network was not trained on them."""
    if _are_pixels(X):
        if _are_faint(X):
            raise ValueError(
                f"Pixels must be in [0, 1], and the largest here is only {X.max():g}: have they "
                "been divided by 255 twice?"
            )
        return
    got = f"Pixels must be in [0, 1], got {X.min():g} to {X.max():g}"
    if n_channels == 1:
        raise ValueError(f"{got}: divide by 255, if they are bytes.")
    raise ValueError(
        f"{got}: if they are bytes stored pixel by pixel, as in image files, convert them with "
        f"Pictures(side, {n_channels})(X) from sklearn_meta.tasks, which orders them channel by "
        "channel."
    )


def _some_of(source):
    """Yield every table of a source's collections, and one draw from each of its other parts."""
    for part in parts_of(source):
        if isinstance(part, Tables):
            yield from (part[name] for name in part)
        else:
            yield part.draw(np.random.default_rng(0))


def _check_pictures(dataset, learner):
    """Refuse rows that are not pictures in the form that the network reads."""
    drawn = dataset.X
    is_rows = drawn.dtype.kind == "f" and drawn.shape[1:] == (learner.n_inputs,)
    if not (is_rows and _are_pixels(drawn)) or _are_faint(drawn):
        raise ValueError(
            f"The network reads rows of {learner.n_inputs} pixels in [0, 1], but datasets hold "
            f"{drawn.dtype} of shape {drawn.shape[1:]}, {drawn.min():g} to {drawn.max():g}. A "
            "classifier can render and augment them: pass vectors=Pictures(side), or for "
            "drawings vectors=Drawings(side)."
        )


def _check_rendered(dataset, vectors, learner):
    """Refuse ``vectors`` if the network cannot read what it makes of some of the rows."""
    some = np.unique(np.linspace(0, len(dataset.X) - 1, 16).astype(int))
    classes = np.arange(len(some)) % 2
    rendered = np.asarray(vectors(dataset.X[some], classes, np.random.default_rng(0)))
    shape = (len(some), learner.n_inputs)
    if rendered.shape != shape or rendered.dtype.kind not in "fiub":
        raise ValueError(
            f"vectors must return float32 of shape {shape} for {len(some)} rows, but returned "
            f"{rendered.dtype} of shape {rendered.shape} for those of {dataset.name!r}."
        )
    if learner.inputs not in PICTURES:
        return
    if not _are_pixels(rendered) or _are_faint(rendered):
        raise ValueError(
            f"The network reads pixels in [0, 1], but vectors returned {rendered.min():g} to "
            f"{rendered.max():g} for {dataset.name!r}: bytes must be 0 to 255, and divided by 255 "
            "once."
        )


def _as_numbers(y):
    try:
        y = y.astype(np.float64)
    except ValueError as error:
        raise ValueError(f"Targets must be numbers: {error}.") from error
    assert_all_finite(y, input_name="y")  # None became NaN only in astype
    return y

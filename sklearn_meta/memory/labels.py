"""Checks that all labels of a stream, which come in parts, are of one kind."""

from contextlib import suppress

import numpy as np
from sklearn.utils import column_or_1d

from ..cells import whole_labels
from ..heads import HEADS
from ..table_validation import check_labels


def declared_classes(classes):
    """Check the declared classes and return them as an array."""
    classes = list(classes) if isinstance(classes, set | frozenset) else classes
    try:
        check_labels(classes)
        return column_or_1d(whole_labels(classes))
    except ValueError as error:
        raise ValueError(f"classes must be a list of labels: {error}") from error


def in_type_of(labels, known):
    """Cast integers or dates to the dtype of the known labels, if that changes none of them."""
    kind = known.dtype.kind
    with suppress(TypeError, ValueError, OverflowError):
        if labels.dtype == object and kind in "mM":
            labels = labels.astype(f"{kind}8[us]")
        if {kind, labels.dtype.kind} <= set("iu") or kind == labels.dtype.kind in "mM":
            cast = labels.astype(known.dtype)
            return cast if (cast == labels).all() else labels
    return labels


def check_one_kind(*parts):
    """Refuse labels of types that NumPy cannot compare exactly: it would mix them up."""
    kinds = {part.dtype for part in parts if len(part)}
    if len(kinds) > 1 and any(kind.kind in "mM" for kind in kinds):
        raise ValueError(
            f"Labels are dates of {' and '.join(sorted(map(str, kinds)))}: those of one stream "
            "must have one unit."
        )
    if all(kind.kind in "iub" for kind in kinds) and kinds and np.result_type(*kinds).kind == "f":
        raise ValueError(
            f"Labels are {' and '.join(sorted(map(str, kinds)))}, which no integer type can hold "
            "together: labels of one stream must have one type."
        )
    whole = [part for part in parts if part.dtype.kind in "iu" and len(part)]
    if any(kind.kind == "f" for kind in kinds) and not all(map(_are_exact_floats, whole)):
        raise ValueError(
            "Labels are floats and integers too large for floats: those of one stream must have "
            "one type."
        )


def _are_exact_floats(whole):
    return max(-int(whole.min()), int(whole.max())) <= 2**53


def more_labels(estimator):
    """End of an error message: what has labels for more classes than this network, if anything."""
    learner = estimator.learner_
    strings = HEADS[learner.task]["string"]().n_words
    if learner.head.n_words >= strings:
        return ""
    if learner.inputs != "tables":
        return (
            f": for up to {strings}, use 'omniglot_mann_string' for drawings, or meta_fit a "
            "MemoryLearner(head='string')"
        )
    # Other weights keep the labels that they were trained with.
    weights = "" if estimator.backbone == "default" else " with backbone='default'"
    return f": use label_encoding='string'{weights}, which has {strings}"

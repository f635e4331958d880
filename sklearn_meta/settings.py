"""Checks of the settings of meta-training, made before any work is done."""

import math
from numbers import Integral, Real

from sklearn.utils import check_scalar

from .distributed import is_first_process
from .folders import check_writable, checkpoint_file

#: Type and minimum of each numeric setting.
_KINDS = {
    "max_steps": (Real, 1),
    "eval_every": (Real, 1),
    "batch_size": (Integral, 1),
    "learning_rate": (Real, 0),
    "weight_decay": (Real, 0),
    "clip": (Real, 0),
    "n_validation": (Integral, 1),
    "n_workers": (Integral, 0),
    "n_pooled": (Integral, 1),
}
#: The same of settings that may also be None.
_OPTIONAL = {
    "patience": (Real, 1),
    "ema_decay": (Real, 0),
    "n_groups": (Integral, 1),
    "n_warmup": (Real, 0),
}
_NUMBERS = _KINDS | _OPTIONAL
_MAY_BE_ENDLESS = ("eval_every", "patience", "clip")

_CHOICES = {
    "keep": ("best", "last"),
    "optimizer": ("adagrad", "adamw", "muon", "rmsprop"),
    "precision": ("auto", "float32", "bfloat16"),
    "schedule": ("cosine", "noam", "constant"),
}


def check_settings(given):
    """Refuse invalid settings of :func:`sklearn_meta.training.meta_train`.

    Parameters
    ----------
    given : dict
        Some or all of its arguments by name. Of ``validation_source`` it only matters whether it is
        None.

    Raises
    ------
    ValueError
        If a setting is invalid; for numbers with the message of :func:`sklearn.utils.check_scalar`.
    OSError
        If the checkpoint's folder cannot be written.
    """
    for name in _NUMBERS:
        if name in given:
            _check_number(name, given[name])
    for name, choices in _CHOICES.items():
        if name in given and given[name] not in choices:
            raise ValueError(f"{name} must be one of {list(choices)}, got {given[name]!r}.")
    callbacks = given.get("callbacks")
    if not isinstance(callbacks, list | tuple | None):
        raise ValueError(
            f"callbacks must be a list of skorch callbacks, got a {type(callbacks).__name__}."
        )
    for one in callbacks or ():
        _check_callback(one, given)
    if given.get("checkpoint_dir") is not None and is_first_process():
        check_writable(checkpoint_file(given["checkpoint_dir"]), "checkpoint_dir", make=True)


def _check_callback(one, given):
    """Refuse what is not a callback, and callbacks that cannot work in meta-training."""
    callback = one[1] if isinstance(one, tuple) and len(one) == 2 else one
    if callback is not None and not hasattr(callback, "on_epoch_end"):
        raise ValueError(
            "callbacks must be skorch callbacks, such as EarlyStopping(), or pairs (name, "
            f"callback), got {one!r}."
        )
    kind = callback if isinstance(callback, type) else type(callback)
    kinds = [base.__name__ for base in kind.__mro__]
    if "LoadInitState" in kinds:  # another run's history would replace this one's
        raise ValueError(
            "callbacks must not contain LoadInitState: pass the initial weights as backbone, or "
            "the same checkpoint_dir to resume a run."
        )
    if "LRScheduler" in kinds:  # meta_train's own scheduler would reset the rate at the next step
        raise ValueError(
            "callbacks must not contain LRScheduler: the learning rate already follows a "
            f"{given.get('schedule', 'cosine')} schedule, which learning_rate scales."
        )
    if "EpochScoring" in kinds:
        own_function = callable(getattr(callback, "scoring", None))
        if not own_function or callback.use_caching:
            raise ValueError(
                "EpochScoring cannot predict batches of tasks, whose shapes differ: losses and "
                "scores are in net.history. With a function of net, dataset and targets as "
                "scoring, set use_caching=False."
            )
    callback = callback() if callback is kind else callback
    monitor = str(getattr(callback, "monitor", ""))
    is_validated = given.get("validation_source") is not None
    if not is_validated and monitor.startswith("valid_"):
        raise ValueError(
            f"{type(callback).__name__} monitors {monitor!r}, but nothing is validated: give "
            "validation_datasets (for texts, validation_tasks), or monitor='train_loss'."
        )
    keeps_best = is_validated and given.get("keep", "best") == "best"
    may_go_on = given.get("checkpoint_dir") is not None
    if getattr(callback, "load_best", False) and may_go_on and not keeps_best:
        raise ValueError(
            f"{type(callback).__name__} must have load_best=False with a checkpoint_dir: a resumed "
            "run would not know its best weights. meta_fit itself keeps those with the lowest "
            "loss on validation_datasets (for texts, on validation_tasks with patience)."
        )


def _check_number(name, value):
    kind, least = _NUMBERS[name]
    if value is None and name in _OPTIONAL:
        return
    try:
        check_scalar(value, name, kind, min_val=least)
    except TypeError as error:
        raise ValueError(f"{error}") from error
    if math.isnan(value) or (math.isinf(value) and name not in _MAY_BE_ENDLESS):
        raise ValueError(f"{name} == {value}, must be finite.")
    if name == "ema_decay" and value >= 1:  # an average that would stay at the first weights
        raise ValueError(f"{name} == {value}, must be < 1.")

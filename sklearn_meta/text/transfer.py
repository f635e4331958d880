"""Initial weights of a new task, after other tasks were learned."""

import copy
from inspect import signature

import numpy as np
import torch
from scipy.special import betaincc, betaln, xlog1py, xlogy

from ..seeding import seeded
from ..tasks.texts import MiniBatches
from ..user_warnings import warn

#: Number of texts of the new task on which the known tasks are compared.
N_COMPARED = 64


def with_a_task(known, name, labels, random_state):
    """Copy a learner, freeze its shared part, and replace its tasks by one with random weights.

    Parameters
    ----------
    known : TextLearner
    name : str
    labels : list
    random_state : int

    Returns
    -------
    TextLearner
    """
    learner = copy.deepcopy(known).requires_grad_(True)
    learner.forget_tasks()
    for parameter in learner.shared_parameters():
        parameter.requires_grad_(False)
    with seeded(random_state):
        learner.add_task(name, labels)
    return learner


def warn_of_kept_settings(estimator, learner):
    """Warn of parameters without effect: the learner was trained with other values, and keeps them.

    Parameters that have their default value count as not given.
    """
    spelling = learner.spelling
    kept = learner.config["backbone_config"] | {
        "embedding_size": learner.n_inputs,
        "lowercase": learner.lowercase,
        "spelling_size": 0 if spelling is None else spelling.embedding_dim,
    }
    if estimator.word_vectors is not None and getattr(learner, "card", None) is not None:
        warn(
            "word_vectors has no effect: meta-trained weights keep their own words and vectors. "
            "Call meta_fit again to use others.",
        )
    for name, parameter in signature(type(estimator)).parameters.items():
        given = getattr(estimator, name)
        if name == "embedding_size" and estimator.word_vectors is not None:
            continue  # word_vectors have a length of their own
        if name in kept and given != parameter.default and given != kept[name]:
            warn(
                f"{name}={given!r} has no effect: meta-trained weights keep {kept[name]!r}. Call "
                "meta_fit again to change it.",
            )


@torch.no_grad()
def begin_as_nearest(learner, known, task, random_state):
    """Copy to the new task the weights of the known task that predicts its labels best.

    Only tasks with exactly the same labels are compared. Labels such as 0 and 1 may mean something
    else in each task, so the new task keeps its random weights unless its texts support a known
    task: the best one predicts more labels correctly than the most frequent label does, and the
    mean of :func:`odds` over the compared tasks is above one. This mean is the posterior odds that
    one of them is meant, if that is as probable beforehand as that none is.

    Parameters
    ----------
    learner : TextLearner
        The result of :func:`with_a_task`.
    known : TextLearner
    task : TextTask
        The new task.
    random_state : int

    Returns
    -------
    str or None
        Name of the task whose weights were copied.
    """
    (labels,) = learner.tasks.values()
    rows = np.random.default_rng(random_state).permutation(len(task.texts))[:N_COMPARED]
    compared = task._replace(
        texts=[task.texts[i] for i in rows], targets=[task.targets[i] for i in rows]
    )
    # Share of each label, averaged over texts, as `_score` averages the share of correct labels.
    counts = [np.bincount(np.atleast_1d(t), minlength=len(labels)) for t in compared.targets]
    commonest = _rounded(np.mean([count / count.sum() for count in counts], 0).max())
    scores = {
        name: _score(known, place, compared)
        for place, (name, others) in enumerate(known.tasks.items())
        if others == labels
    }
    nearest = max(scores, key=scores.get, default=None)
    if nearest is None or scores[nearest] <= commonest:
        return None
    n_labels = sum(np.size(target) for target in compared.targets)
    if np.mean([odds(score, n_labels, commonest) for score in scores.values()]) <= 1:
        return None
    place = list(known.tasks).index(nearest)
    for backbone, of_known in zip(learner.backbones, known.backbones):
        backbone.private[0].load_state_dict(of_known.private[place].state_dict())
    learner.heads[0].load_state_dict(known.heads[place].state_dict())
    return nearest


def odds(score, n_labels, chance):
    """Likelihood ratio of a share of correct labels: a task that is meant, to one that is not.

    If the task is not meant, each label is correct with probability ``chance``. If it is meant,
    that probability is unknown, and uniform between ``chance`` and 1.

    Parameters
    ----------
    score, chance : float in [0, 1]
        Share of correct labels, and the share by chance, which is below 1.
    n_labels : int

    Returns
    -------
    float
    """
    n_right, n_wrong = score * n_labels, (1 - score) * n_labels
    above = betaincc(n_right + 1, n_wrong + 1, chance)
    if above == 0:  # the score is far below chance
        return 0.0
    meant = betaln(n_right + 1, n_wrong + 1) + np.log(above) - np.log1p(-chance)
    ratio = meant - xlogy(n_right, chance) - xlog1py(n_wrong, -chance)
    return float(np.exp(min(ratio, 700.0)))  # more would overflow


def _score(learner, place, task):
    inputs, target = MiniBatches.collate([task])
    device, was_training = next(learner.parameters()).device, learner.training
    told = learner.eval()(inputs["words"].to(device), inputs["lengths"], place)
    learner.train(was_training)  # the learner may be the user's
    return _rounded(learner.head.score(told, target.to(device)).mean())


def _rounded(score):
    """Round a score, so that floating-point noise does not decide which of two is higher."""
    return round(float(score), 6)

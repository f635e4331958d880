"""How a new task begins where others were learned before."""

import copy
from inspect import signature

import numpy as np
import torch
from scipy.special import betaincc, betaln, xlog1py, xlogy

from ..seeding import seeded
from ..tasks.texts import MiniBatches
from ..user_warnings import warn

#: Texts of the new task by which others are compared.
N_COMPARED = 64


def with_a_task(known, name, labels, random_state):
    """A copy of what is shared, fixed, with one task of random weights.

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
    """Say which parameters of an estimator weights do not follow: they were trained with others.

    Parameters that have their default value are taken for not given.
    """
    spelling = learner.spelling
    kept = learner.config["backbone_config"] | {
        "embedding_size": learner.n_inputs,
        "lowercase": learner.lowercase,
        "spelling_size": 0 if spelling is None else spelling.embedding_dim,
    }
    if estimator.word_vectors is not None and getattr(learner, "card", None) is not None:
        warn(
            "word_vectors has no effect: weights that were meta-trained keep their own words and "
            "vectors. Call meta_fit anew for others.",
        )
    for name, parameter in signature(type(estimator)).parameters.items():
        given = getattr(estimator, name)
        if name == "embedding_size" and estimator.word_vectors is not None:
            continue  # the vectors' own length is what counts
        if name in kept and given != parameter.default and given != kept[name]:
            warn(
                f"{name}={given!r} has no effect: weights that were meta-trained keep "
                f"{kept[name]!r}. Call meta_fit anew for others.",
            )


@torch.no_grad()
def begin_as_nearest(learner, known, task, random_state):
    """Let the one task of a learner begin as that of ``known`` that tells its labels best.

    Those of the very same labels are compared. Labels such as 0 and 1 may mean something else in
    each task, so random weights are kept unless the labelled texts speak for the known ones: the
    best of these tells more texts right than the commonest label does, and :func:`odds` of all of
    them are above one in the mean, as they are where one of them is as likely to be meant as none.

    Parameters
    ----------
    learner : TextLearner
        Of :func:`with_a_task`.
    known : TextLearner
    task : TextTask
        The new one, in numbers.
    random_state : int

    Returns
    -------
    str or None
        Name of the task whose weights were taken.
    """
    (labels,) = learner.tasks.values()
    rows = np.random.default_rng(random_state).permutation(len(task.texts))[:N_COMPARED]
    compared = task._replace(
        texts=[task.texts[i] for i in rows], targets=[task.targets[i] for i in rows]
    )
    # Of each label, the mean share of a text's words, as `_score` has it of those told right.
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
    """How much likelier a share of right labels is of a task that is meant than of one that is not.

    Of one that is not each label is right with the probability ``chance``; of one that is, with
    one of which nothing is known but that it is greater: any is as likely.

    Parameters
    ----------
    score, chance : float in [0, 1]
        ``chance`` below 1.
    n_labels : int

    Returns
    -------
    float
        The ratio of both likelihoods.
    """
    n_right, n_wrong = score * n_labels, (1 - score) * n_labels
    above = betaincc(n_right + 1, n_wrong + 1, chance)
    if above == 0:  # far fewer are right
        return 0.0
    meant = betaln(n_right + 1, n_wrong + 1) + np.log(above) - np.log1p(-chance)
    ratio = meant - xlogy(n_right, chance) - xlog1py(n_wrong, -chance)
    return float(np.exp(min(ratio, 700.0)))  # of the words of long texts it is beyond float64


def _score(learner, place, task):
    inputs, target = MiniBatches.collate([task])
    device, was_training = next(learner.parameters()).device, learner.training
    told = learner.eval()(inputs["words"].to(device), inputs["lengths"], place)
    learner.train(was_training)  # it may be a user's
    return _rounded(learner.head.score(told, target.to(device)).mean())


def _rounded(score):
    """A number that no rounding makes more than another."""
    return round(float(score), 6)

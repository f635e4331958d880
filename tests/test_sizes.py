"""Sizes with which a network or a sampler cannot be built are refused by name."""

from functools import partial

import numpy as np
import pytest

from sklearn_meta.backbones import (
    BACKBONES,
    FEW_SHOT_BACKBONES,
    MANN,
    TEXT_BACKBONES,
    MixtureTransformer,
    SetTransformer,
)
from sklearn_meta.backbones.image_encoder import ImageEncoder, ResidualImageEncoder
from sklearn_meta.backbones.set_transformer import ISAB, MAB, PMA
from sklearn_meta.few_shot_learner import FewShotLearner
from sklearn_meta.heads import HEADS
from sklearn_meta.memory_learner import MemoryLearner
from sklearn_meta.tasks import (
    CircleSpiral,
    Drawings,
    EpisodeSampler,
    GaussianProcessPrior,
    MixturePrior,
    MixtureSampler,
    MixtureSets,
    NWayKShot,
    OutlierSampler,
    Pictures,
    RegressionPrior,
    RegressionSampler,
    TableEpisodes,
    TablePrior,
    Vectors,
)
from sklearn_meta.text_learner import TextLearner

OF_EPISODES = {
    name: partial(kind, 3, 5, 1, **variant) for name, (kind, variant) in FEW_SHOT_BACKBONES.items()
}
OF_TEXTS = {name: partial(kind, 5) for name, kind in TEXT_BACKBONES.items()}
OF_SETS = partial(SetTransformer, 2, 1)
POOLED = partial(OF_SETS, encoder="rff", pooling="mean")
OF_SEQUENCES = partial(MANN, 4, 3)
OF_MIXTURES = partial(MixtureTransformer, 16, 8)
EPISODES = partial(NWayKShot, Vectors(3))

#: What is built, the minimum of its sizes, and their names.
LEAST = [
    (BACKBONES["vsa"], 1, "width n_layers n_heads head_width last_width"),
    (BACKBONES["deep_sets"], 1, "width"),
    (BACKBONES["exchangeable"], 1, "width n_layers last_width"),
    (BACKBONES["hml"], 1, "width"),
    (BACKBONES["hml"], 0, "n_iterations"),
    (BACKBONES["att_hml"], 1, "width n_heads"),
    (BACKBONES["att_hml"], 0, "n_iterations n_layers"),
    (BACKBONES["maml"], 1, "width"),
    (BACKBONES["maml"], 0, "n_steps"),
    (OF_EPISODES["few_shot_transformer"], 1, "width n_latent n_heads"),
    (OF_EPISODES["few_shot_transformer"], 0, "n_layers"),
    (OF_EPISODES["snail"], 2, "width"),
    (OF_SEQUENCES, 1, "width n_slots slot_size n_reads"),
    (partial(OF_SEQUENCES, access=None), 1, "width"),
    (OF_MIXTURES, 1, "width n_heads n_rounds"),
    (OF_MIXTURES, 0, "n_layers"),
    (partial(MAB, width=8, n_heads=2), 1, "width n_heads"),
    (partial(ISAB, 8, 2), 1, "n_inducing"),
    (partial(PMA, 8, 2), 1, "n_seeds"),
    (OF_SETS, 1, "width n_heads n_inducing n_seeds"),
    (OF_SETS, 0, "n_layers n_decoder_layers"),
    (POOLED, 1, "width"),
    (OF_TEXTS["lstm"], 1, "width"),
    (OF_TEXTS["meta_lstm"], 1, "meta_width rank"),
    (OF_TEXTS["hyper_lstm"], 1, "meta_width rank"),
    (OF_TEXTS["asp_mtl"], 1, "most_tasks"),
    (partial(ImageEncoder, 256), 1, "n_channels n_filters"),
    (partial(ImageEncoder, 256), 0, "n_blocks"),
    (partial(ResidualImageEncoder, 256), 1, "n_channels n_outputs"),
    (partial(ResidualImageEncoder, 256), 2, "n_filters"),
    (partial(ResidualImageEncoder, 256), 0, "shift"),
    (HEADS["regression"]["gp"], 1, "n_kernels"),
    (HEADS["regression"]["gp_attributes"], 1, "n_kernels"),
    (HEADS["outlier_detection"]["odd_at_scales"], 1, "n_scales n_hidden"),
    (HEADS["online_classification"]["onehot"], 1, "n_classes"),
    (HEADS["online_classification"]["string"], 1, "n_letters n_symbols"),
    (FewShotLearner, 1, "n_inputs n_shots"),
    (partial(FewShotLearner, "snail"), 2, "n_ways"),
    (MemoryLearner, 1, "n_inputs"),
    (TextLearner, 1, "n_inputs"),
    (EpisodeSampler, 2, "max_classes"),
    (EPISODES, 1, "n_ways n_shots"),
    (GaussianProcessPrior, 1, "n_columns n_rows"),
    (CircleSpiral, 1, "n_rows_per_class"),
    (RegressionPrior, 10, "n_rows"),
    (TablePrior, 1, "n_rows"),
    (TableEpisodes, 1, "width"),
    (Drawings, 1, "size"),
    (Pictures, 1, "size"),
    (partial(Pictures, 8), 1, "n_channels"),
    (MixturePrior, 1, "max_components max_columns"),
]

#: What draws tasks, and the names of its shares.
SHARES = [
    (EpisodeSampler, "inductive imbalanced column_subset class_subset missing"),
    (RegressionSampler, "inductive column_subset missing"),
    (OutlierSampler, "clean altered column_subset missing"),
    (EPISODES, "fewer_classes"),
    (TableEpisodes, "fewer_classes column_subset"),
    (MixtureSampler, "other_k"),
]


@pytest.mark.parametrize(
    ("build", "least", "name"),
    [(build, least, name) for build, least, names in LEAST for name in names.split()],
)
def test_sizes_are_integers_that_are_large_enough(build, least, name):
    for value in (least - 1, 2.5):
        with pytest.raises(
            ValueError, match=rf"{name} must be an integer of {least} or more, got {value}\."
        ):
            build(**{name: value})


@pytest.mark.parametrize(
    ("build", "least", "name"),
    [
        *[(CircleSpiral, 2, "n_columns"), (RegressionPrior, 2, "n_columns")],
        *[(TablePrior, 2, name) for name in ("n_columns", "n_classes")],
        *[(MixtureSets, 1, name) for name in ("n_components", "n_columns", "n_points")],
    ],
)
def test_ranges_are_two_integers_in_order(build, least, name):
    for value in (5, (5,), (6, 5), (2, 5, 8), (least - 1, 5), (2.0, 5.0), "25", None):
        with pytest.raises(ValueError, match=rf"{name} must be a pair of integers \(low, high\)"):
            build(**{name: value})


def test_one_number_of_points_is_both_ends_of_a_range():
    """A single number used to be accepted, and then the first draw failed."""
    assert len(MixturePrior(n_points=40).draw(np.random.default_rng(0)).X) == 40


@pytest.mark.parametrize("name", ["max_rows", "max_cells"])
@pytest.mark.parametrize("build", [EpisodeSampler, RegressionSampler])
def test_limits_are_numbers_of_1_or_more(build, name):
    for value in (0, "x", None, float("nan")):
        with pytest.raises(ValueError, match=rf"{name} must be a number of 1 or more, got "):
            build(**{name: value})
    assert vars(build(**{name: np.inf}))[name] == np.inf


@pytest.mark.parametrize(
    ("build", "name"), [(build, name) for build, names in SHARES for name in names.split()]
)
def test_shares_are_numbers_from_0_to_1(build, name):
    for value in (-0.1, 1.5, "x", None, float("nan")):
        with pytest.raises(ValueError, match=rf"{name} must be a number from 0 to 1, got "):
            build(**{name: value})
    for value in (0, 1):
        assert vars(build(**{name: value}))[name] == value


@pytest.mark.parametrize(
    ("build", "config", "message"),
    [
        (GaussianProcessPrior, {"length_scale": 0}, "length_scale must be a positive number"),
        (MixturePrior, {"n_points": (0, 0)}, "n_points must be a whole number of 1 or more"),
        (OutlierSampler, {"max_share": 1.0}, "max_share must be above 0 and at most 0.5, got 1.0"),
        (OutlierSampler, {"novelty": 2}, "novelty must be a number from 0 to 1, got 2"),
        (BACKBONES["att_hml"], {"width": 10}, "n_heads must divide width, got .*n_heads=4"),
        (OF_MIXTURES, {"n_heads": 3}, "n_heads must divide width, got .*n_heads=3"),
        (POOLED, {"norm": "batch"}, "Unknown norm 'batch': choose from"),
        (HEADS["regression"]["gp"], {"length_scale": 0}, "length_scale must be a positive number"),
        (HEADS["regression"]["gp"], {"noise": -0.1}, "noise must be a positive number, got -0.1"),
        (HEADS["classification"]["label_propagation"], {"length_scale": -1}, "length_scale must"),
        (HEADS["classification"]["linear"], {"penalty": 0}, "penalty must be a positive number"),
        (HEADS["classification"]["label_propagation"], {"alpha": 1}, "alpha must be between 0 and"),
        (HEADS["classification"]["label_propagation"], {"alpha": 0}, "alpha must be between 0 and"),
    ],
)
def test_what_else_cannot_be(build, config, message):
    with pytest.raises(ValueError, match=message):
        build(**config)

"""What a network cannot be built of is refused, by its name."""

from functools import partial

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
from sklearn_meta.text_learner import TextLearner

OF_EPISODES = {
    name: partial(kind, 3, 5, 1, **variant) for name, (kind, variant) in FEW_SHOT_BACKBONES.items()
}
OF_TEXTS = {name: partial(kind, 5) for name, kind in TEXT_BACKBONES.items()}
OF_SETS = partial(SetTransformer, 2, 1)
POOLED = partial(OF_SETS, encoder="rff", pooling="mean")
OF_SEQUENCES = partial(MANN, 4, 3)
OF_MIXTURES = partial(MixtureTransformer, 16, 8)

#: What is built, and sizes of it that must be so many at least.
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
    (HEADS["online_classification"]["onehot"], 1, "n_classes"),
    (HEADS["online_classification"]["string"], 1, "n_letters n_symbols"),
    (FewShotLearner, 1, "n_inputs n_shots"),
    (partial(FewShotLearner, "snail"), 2, "n_ways"),
    (MemoryLearner, 1, "n_inputs"),
    (TextLearner, 1, "n_inputs"),
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
    ("build", "config", "message"),
    [
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

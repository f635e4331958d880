"""Training settings of the models and ablations of paper 003: ours, and those of the paper."""

from typing import NamedTuple

from sklearn_meta.backbones.few_shot_transformer import VARIANTS


class Settings(NamedTuple):
    """Backbone and training settings of a model."""

    backbone: str
    config: dict
    rate: float  # highest learning rate
    schedule: str = "cosine"


#: Models without a search. The paper's rates are for hundreds of times as many steps.
MODELS = {
    "few_shot_transformer": Settings("few_shot_transformer", {"width": 64}, 1e-3),
    "transformer": Settings("transformer", {"width": 64}, 1e-3),
    "snail": Settings("snail", {"width": 32}, 1e-3),
}

#: Section 4.4: the same settings for all.
ABLATIONS = {
    name: Settings("few_shot_transformer", {"attention": name, "width": 64, "n_layers": 2}, 1e-3)
    for name in VARIANTS
}


def of_paper(model, rate, schedule="constant", **config):
    """Return settings that the paper reports."""
    return Settings(model, config, rate, schedule)


#: Settings that the paper's search found for each data set (sections 5.2 and 5.3).
PAPER = {
    "omniglot": {
        "few_shot_transformer": of_paper("few_shot_transformer", 1e-4, width=64),
        "transformer": of_paper("transformer", 5e-3, "noam", width=32, n_layers=3),
        "snail": of_paper("snail", 3.3e-5),
    },
    "mini_imagenet": {
        "few_shot_transformer": of_paper(
            "few_shot_transformer", 1e-5, "noam", width=128, n_layers=3, dropout=0.1
        ),
        "transformer": of_paper("transformer", 4e-7, width=64),
        "snail": of_paper("snail", 1.186e-4),
    },
    "symbolic": {
        "few_shot_transformer": of_paper(
            "few_shot_transformer", 3.5e-7, width=32, n_layers=3, dropout=0.1
        ),
        "transformer": of_paper("transformer", 1e-6, width=64, n_layers=3, dropout=0.1),
        "snail": of_paper("snail", 2.5e-6),
    },
}

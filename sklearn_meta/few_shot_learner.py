"""The learner of N-way K-shot episodes: an encoder of rows, a backbone and a decoder."""

import torch
from torch import nn

from .backbones import FEW_SHOT_BACKBONES
from .backbones.image_encoder import IMAGE_ENCODERS
from .heads import HEADS
from .sizes import check_integers


class FewShotLearner(nn.Module):
    """Encoder, backbone and head for queries beside a fixed number of labelled rows (paper 003).

    Parameters
    ----------
    backbone : {"few_shot_transformer", "transformer", "snail"}, default="few_shot_transformer"
    head : {"label_attention", "last_position"}, default=None
        If None, the backbone's: "last_position" for "snail", otherwise "label_attention".
    task : "few_shot", default="few_shot"
    inputs : {"tables", "vectors", "images"}, default="tables"
        Whether rows come from tables with any columns, which are projected to the length that the
        network reads, or are vectors of that length, or pixels of images, in [0, 1].
    n_inputs : int, default=32
        Length of the vectors that the network reads.
    n_ways, n_shots : int, default=5 and 1
        Classes per episode, and labelled rows per class.
    image_encoder : {"convolutional", "residual"}, default="convolutional"
        Encoder of images: :class:`sklearn_meta.backbones.image_encoder.ImageEncoder` or
        :class:`sklearn_meta.backbones.image_encoder.ResidualImageEncoder`.
    encoder_config, backbone_config, head_config : dict, optional
        Keyword arguments of the image encoder, of the backbone (except its sizes), and of the head.

    Raises
    ------
    ValueError
        If an argument is unknown, or there are fewer than two ways, no shots or no inputs.
    """

    task = "few_shot"

    def __init__(
        self,
        backbone="few_shot_transformer",
        head=None,
        *,
        task="few_shot",
        inputs="tables",
        n_inputs=32,
        n_ways=5,
        n_shots=1,
        image_encoder="convolutional",
        encoder_config=None,
        backbone_config=None,
        head_config=None,
    ):
        super().__init__()
        if task != self.task or backbone not in FEW_SHOT_BACKBONES:
            raise ValueError(
                f"A learner for {self.task} needs a backbone from {list(FEW_SHOT_BACKBONES)}, got "
                f"{backbone!r} for {task}."
            )
        if inputs not in ("tables", "vectors", "images"):
            raise ValueError(f"inputs must be 'tables', 'vectors' or 'images', got {inputs!r}.")
        if image_encoder not in IMAGE_ENCODERS:
            raise ValueError(
                f"image_encoder must be one of {list(IMAGE_ENCODERS)}, got {image_encoder!r}."
            )
        check_integers(n_inputs=n_inputs, n_shots=n_shots)
        check_integers(2, n_ways=n_ways)
        fitting = "last_position" if backbone == "snail" else "label_attention"
        if head not in (None, fitting):
            raise ValueError(f"backbone={backbone!r} needs head={fitting!r}, got {head!r}.")
        head = fitting
        self.names = {"backbone": backbone, "head": head}
        self.inputs = inputs
        self.n_inputs = n_inputs
        self.n_ways = n_ways
        self.n_shots = n_shots
        self.image_encoder = image_encoder
        reader = IMAGE_ENCODERS[image_encoder]
        self.encoder = reader(n_inputs, **encoder_config or {}) if inputs == "images" else None
        kind, variant = FEW_SHOT_BACKBONES[backbone]
        n_features = self.encoder.n_outputs if self.encoder else n_inputs
        self.backbone = kind(n_features, n_ways, n_shots, **{**variant, **(backbone_config or {})})
        self.head = HEADS[task][head](**(head_config or {}))
        self.float()  # whatever torch's default dtype is

    @property
    def n_channels(self):
        """Number of channels of the images that it reads, an int."""
        return self.encoder.config["n_channels"]

    @property
    def config(self):
        """Keyword arguments that build this learner again."""
        return {
            **self.names,
            "task": self.task,
            "inputs": self.inputs,
            "n_inputs": self.n_inputs,
            "n_ways": self.n_ways,
            "n_shots": self.n_shots,
            "image_encoder": self.image_encoder,
            "encoder_config": dict(self.encoder.config) if self.encoder else {},
            "backbone_config": dict(self.backbone.config),
            "head_config": dict(self.head.config),
        }

    def encode(self, x):
        """Embed rows (..., n_inputs), each by itself, as vectors (..., I)."""
        return self.encoder(x) if self.encoder else x

    def compare(self, support, labels, query):
        """Log-probabilities of the classes of encoded queries, given encoded labelled rows.

        Parameters
        ----------
        support : tensor of shape (B, n_ways * n_shots, I)
        labels : int tensor of shape (B, n_ways * n_shots)
            Class codes, less than ``n_ways``; not all of them need to occur.
        query : tensor of shape (B, Q, I)

        Returns
        -------
        tensor of shape (B, Q, n_ways)
        """
        return self.head(self.backbone(support, labels, query), labels, self.n_ways)

    def forward(self, support, labels, query):
        """As ``compare``, but for raw rows (..., n_inputs)."""
        encoded = self.encode(torch.cat([support, query], 1))  # in one batch
        known, asked = encoded.split([support.shape[1], query.shape[1]], 1)
        return self.compare(known, labels, asked)

"""Base class of the estimators of sets: reading sets, training and running the network."""

import copy
import math
from numbers import Integral, Real

import numpy as np
import torch
from sklearn.model_selection import train_test_split
from sklearn.utils import check_consistent_length, check_random_state, gen_batches
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import nn
from torch.utils.data import StackDataset

from ..backbones.set_transformer import ENCODERS, NORMS, POOLINGS, SetTransformer
from ..devices import autocast, usable_device
from ..seeding import seeded
from ..tasks.regression_episodes import mean_and_deviation
from ..versions import VersionedEstimator
from .training import SetNetwork, pad, train
from .validation import as_sets

#: Standardised elements are clipped here: far beyond those of training, and finite in float32.
FARTHEST = 1e6


class SetEstimator(VersionedEstimator):
    """Base class of the estimators whose samples are sets."""

    _parameter_constraints = {
        "encoder": [StrOptions(set(ENCODERS))],
        "pooling": [StrOptions(set(POOLINGS))],
        "width": [Interval(Integral, 1, None, closed="left")],
        "n_heads": [Interval(Integral, 1, None, closed="left")],
        "n_layers": [Interval(Integral, 0, None, closed="left")],
        "n_inducing": [Interval(Integral, 1, None, closed="left")],
        "norm": [StrOptions(set(NORMS))],
        "dropout": [Interval(Real, 0, 1, closed="left")],
        "embedding": [nn.Module, None],
        "max_epochs": [Interval(Integral, 1, None, closed="left")],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "weight_decay": [Interval(Real, 0, None, closed="left")],
        "early_stopping": ["boolean"],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
        "device": [str],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        *,
        encoder="isab",
        pooling="pma",
        width=64,
        n_heads=4,
        n_layers=2,
        n_inducing=16,
        norm="pre",
        dropout=0.0,
        embedding=None,
        max_epochs=100,
        batch_size=32,
        learning_rate=1e-3,
        weight_decay=0.01,
        early_stopping=False,
        validation_fraction=0.1,
        n_iter_no_change=10,
        device="auto",
        random_state=None,
        verbose=False,
    ):
        self.encoder = encoder
        self.pooling = pooling
        self.width = width
        self.n_heads = n_heads
        self.n_layers = n_layers
        self.n_inducing = n_inducing
        self.norm = norm
        self.dropout = dropout
        self.embedding = embedding
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def _validate(self, X, y, **check_params):
        """Return validated sets and targets, one per set; errors are worded as scikit-learn's."""
        sets = as_sets(X)
        y = validate_data(self, y=y, **check_params)
        check_consistent_length(sets, y)
        return sets, y

    @torch.inference_mode(False)  # the caller may be in inference mode
    def _fit(self, sets, target, n_outputs, criterion, stratify=None):
        """Finish ``fit``: train a new network.

        ``target`` has one row per set. ``stratify`` holds the classes that a validation set must
        contain in proportion.
        """
        self._learn_elements(sets)
        sets = self._prepare(sets)
        rng = check_random_state(self.random_state)
        rows, held_out = np.arange(len(sets)), None
        if self.early_stopping:
            rows, held_out = self._held_out(rows, stratify, rng)
        data, validation_data = (
            None if chosen is None else StackDataset([sets[i] for i in chosen], target[chosen])
            for chosen in (rows, held_out)
        )
        device = self._device()
        # float32, even if the caller uses autocast.
        with seeded(rng.randint(np.iinfo(np.int32).max)), autocast(device, "float32"):
            module = self._network(sets[0], n_outputs)
            self.history_ = train(
                module,
                criterion,
                data,
                validation_data,
                max_epochs=self.max_epochs,
                batch_size=int(self.batch_size),  # torch refuses numpy's integers
                learning_rate=self.learning_rate,
                weight_decay=self.weight_decay,
                patience=self.n_iter_no_change,
                device=device,
                verbose=self.verbose,
            )
        self.module_ = module
        self.n_iter_ = sum("train_loss" in epoch for epoch in self.history_)  # complete epochs
        return self

    def _held_out(self, rows, stratify, rng):
        """Split rows into those to train on and those of the validation set."""
        fraction = self.validation_fraction
        try:
            return train_test_split(rows, test_size=fraction, stratify=stratify, random_state=rng)
        except ValueError as error:
            raise ValueError(
                f"early_stopping=True cannot hold out validation_fraction={fraction} of the "
                f"{len(rows)} sets: {error} Give more sets, or set early_stopping=False."
            ) from error

    def _learn_elements(self, sets):
        """Store the shape of elements and, unless there is an embedding, their mean and scale."""
        self._element_shape = sets[0].shape[1:]
        self.n_features_in_ = math.prod(self._element_shape)
        for name in ("mean_", "scale_"):  # of an earlier fit without an embedding
            vars(self).pop(name, None)
        if self.embedding is not None:
            return
        if len(self._element_shape) > 1:
            raise ValueError(
                f"Elements have shape {self._element_shape}: give an embedding (a module that "
                "turns each into a vector), or reshape every set to (n_points, n_features)."
            )
        self.mean_, deviation = mean_and_deviation(np.concatenate(sets))
        # A constant column teaches nothing: divide by inf, so that new values in it read as 0.
        self.scale_ = np.where(deviation > 0, deviation, np.inf)

    def _prepare(self, sets):
        """Convert sets to tensors: standardised, or for an embedding unchanged (bytes stay)."""
        elements = np.concatenate(sets)
        if hasattr(self, "mean_"):  # fit had no embedding
            with np.errstate(over="ignore"):
                elements = np.nan_to_num(elements - self.mean_) / self.scale_  # never inf / inf
            elements = np.clip(elements, -FARTHEST, FARTHEST)
        if elements.dtype == np.uint8:
            elements = torch.from_numpy(elements)
        else:  # torch lacks some of NumPy's dtypes
            network = vars(self).get("module_")  # None in fit
            dtype = next(network.parameters()).dtype if network else torch.get_default_dtype()
            elements = torch.from_numpy(elements.astype(np.float64)).to(dtype)
        return list(elements.split([len(elements) for elements in sets]))

    def _network(self, elements, n_outputs):
        """Build a network for sets of elements such as these."""
        embedding, n_inputs = None, self.n_features_in_
        if self.embedding is not None:
            dtype = torch.get_default_dtype()
            embedding = copy.deepcopy(self.embedding).to("cpu", dtype)  # the user's is not trained
            with torch.no_grad():
                shape = embedding.eval()(elements[:1].to(dtype)).shape
            if len(shape) != 2:
                raise ValueError(
                    f"The embedding must return shape (n_elements, n_numbers), got {tuple(shape)} "
                    f"for one element of shape {self._element_shape}. End it with "
                    "torch.nn.Flatten()."
                )
            n_inputs = shape[1]
        names = ("encoder", "pooling", "width", "n_heads", "n_layers", "n_inducing", "norm")
        config = {name: getattr(self, name) for name in (*names, "dropout")}
        return SetNetwork(embedding, SetTransformer(n_inputs, n_outputs, **config))

    @torch.inference_mode()
    def _outputs(self, X):
        """Output of the network for each set, float64 of shape (n_sets, n_outputs)."""
        check_is_fitted(self)
        sets = as_sets(X)
        if sets[0].shape[1:] != self._element_shape:
            raise ValueError(
                f"X has {math.prod(sets[0].shape[1:])} features, but {type(self).__name__} is "
                f"expecting {self.n_features_in_} features as input: elements have shape "
                f"{sets[0].shape[1:]}, and {self._element_shape} in fit."
            )
        device = self._device()
        module = self.module_.to(device).eval()
        outputs = []
        for some in gen_batches(len(sets), int(self.batch_size)):  # NumPy's int8 would overflow
            batch = pad(self._prepare(sets[some]))
            with autocast(device, "float32"):
                outputs.append(module(**{name: part.to(device) for name, part in batch.items()}))
        return torch.cat(outputs).double().cpu()

    def _device(self):
        return usable_device(self.device)

    def __sklearn_is_fitted__(self):
        return hasattr(self, "module_")

    def __getstate__(self):
        """Move the network to the CPU, so that it can be loaded without a GPU."""
        state = super().__getstate__()
        if "module_" in state:
            state["module_"] = copy.deepcopy(state["module_"]).cpu()
        return state

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.input_tags.allow_nan = True  # padding
        return tags

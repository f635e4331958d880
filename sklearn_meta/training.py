"""Meta-training: Algorithm 1 of paper 000 on skorch.

One *step* is one batch of tasks; one skorch *epoch* is the ``eval_every`` steps between two
looks at the validation tasks. A checkpoint is written at the end of each epoch.
"""

import math

import torch
from skorch import NeuralNet
from skorch.callbacks import (
    Callback,
    GradientNormClipping,
    LRScheduler,
    PassthroughScoring,
)
from skorch.helper import predefined_split
from torch.optim.lr_scheduler import LambdaLR
from tqdm.auto import tqdm

from .checkpoint import Checkpoint
from .tasks import batches
from .tasks.batch import IGNORE


def meta_train(
    learner,
    source,
    sampler,
    *,
    validation_source=None,
    max_steps=20_000,
    batch_size=8,
    learning_rate=2e-3,
    weight_decay=0.01,
    n_warmup=100,
    n_cycles=1,
    clip=1.0,
    eval_every=500,
    n_validation=32,
    patience=None,
    keep="best",
    callbacks=None,
    checkpoint_dir=None,
    device="cpu",
    precision="auto",
    n_workers=0,
    n_pooled=16,
    n_groups=4,
    random_state=0,
    verbose=True,
):
    """Minimise the expected loss on held-out labels, Eq. (10) of paper 000.

    Parameters
    ----------
    learner : Learner
        Trained in place.
    source, validation_source : object with ``draw(rng) -> Dataset``
        Where training and validation tasks come from. Without a validation source there is
        neither early stopping nor a best state: the last weights stand.
    sampler : EpisodeSampler
    max_steps : int, default=20000
    batch_size : int, default=8
        Tasks a step.
    learning_rate, weight_decay : float, default=2e-3 and 0.01
        Of AdamW.
    n_warmup, n_cycles : int, default=100 and 1
        The rate rises linearly over ``n_warmup`` steps and falls to zero along a cosine; the
        rest of the steps holds ``n_cycles`` such falls.
    clip : float, default=1.0
        Largest norm of the gradient.
    eval_every : int, default=500
        Steps between looks at the validation tasks, and between checkpoints.
    n_validation : int, default=32
        Batches of validation tasks, drawn once.
    patience : int, default=None
        Looks without a better validation loss after which training stops; None never stops.
    keep : {"best", "last"}, default="best"
        Whether the weights of the lowest validation loss stand in the end, or the last ones: at
        a high learning rate the lowest loss of a few tasks is luck, and annealing worth more.
    callbacks : list of skorch callbacks, default=None
    checkpoint_dir : path, default=None
        Folder for ``checkpoint.safetensors``. If one is there, training goes on from it.
    device : str, default="cpu"
    precision : {"auto", "float32", "bfloat16"}, default="auto"
        bfloat16 runs the forward pass under autocast; "auto" does where the device gains.
    n_workers : int, default=0
        Processes that prepare batches.
    n_pooled, n_groups : int, default=16 and 4
        Batches drawn at a time, over which tasks are sorted by size so that little is padded,
        and groups of like size that make a batch: their gradients add up to one step.
    random_state : int, default=0
    verbose : bool, default=True
        Whether to show a progress bar.

    Returns
    -------
    history : skorch.history.History
        ``train_loss``, ``valid_loss`` and ``valid_accuracy`` by epoch.

    Raises
    ------
    ValueError
        If the checkpoint is not one of this learner and schedule.
    """
    max_steps = int(max_steps)
    eval_every = min(eval_every, max_steps)
    n_epochs = math.ceil(max_steps / eval_every)
    schedule = {
        "max_steps": max_steps,
        "eval_every": eval_every,
        "batch_size": batch_size,
        "n_pooled": n_pooled,
        "n_groups": n_groups,
        "random_state": random_state,
        "learner": learner.config,
    }
    stream = EpisodeStream(
        source,
        sampler,
        batch_size=batch_size,
        n_batches=eval_every,
        seed=[random_state, 0],
        n_pooled=n_pooled,
        n_groups=n_groups,
    )
    checkpoint = Checkpoint(checkpoint_dir, schedule)
    own = [
        GradientNormClipping(clip),
        LRScheduler(
            LambdaLR,
            # skorch resumes a schedule at the number of epochs, not of steps: count them here.
            lr_lambda=lambda step: rate_at(
                step + checkpoint.n_epochs * eval_every, n_epochs * eval_every, n_warmup, n_cycles
            ),
            last_epoch=-1,
            step_every="batch",
        ),
    ]
    validation = None
    if validation_source is not None:
        draws = batches(validation_source, sampler, batch_size=batch_size, seed=[random_state, 1])
        validation = [group for _ in range(n_validation) for group in next(draws)]
        own.append(PassthroughScoring("valid_accuracy", lower_is_better=False))
    own.append(checkpoint)
    if verbose:
        own.append(Progress(n_epochs * eval_every))
    # Last, so that every other callback has seen the epoch at which it ends the run.
    stop = Patience(patience if validation else None)
    net = MetaNet(
        learner,
        criterion=episode_loss,
        optimizer=torch.optim.AdamW,
        optimizer__weight_decay=weight_decay,
        lr=learning_rate,
        max_epochs=n_epochs,
        batch_size=1,  # a stream's item is a whole batch of tasks, in groups
        iterator_train__collate_fn=_only,
        iterator_train__num_workers=n_workers,
        iterator_valid__collate_fn=_only,
        train_split=validation and predefined_split(validation),
        callbacks=[*own, *(callbacks or []), stop],
        callbacks__print_log=None,
        device=device,
        precision=precision,
        verbose=0,
    )
    net.initialize()
    checkpoint.restore(net)
    learner.train()
    left = 0 if stop.is_over(net.history) else max(n_epochs - checkpoint.n_epochs, 0)
    net.partial_fit(stream, epochs=left)
    if keep == "best":
        checkpoint.load_best(net)
    learner.eval()
    return net.history


class EpisodeStream(torch.utils.data.IterableDataset):
    """The batches of one epoch after another; ``epoch`` says which comes next."""

    def __init__(self, source, sampler, *, batch_size, n_batches, seed, n_pooled, n_groups):
        self.source = source
        self.sampler = sampler
        self.batch_size = batch_size
        self.n_batches = n_batches
        self.seed = seed
        self.n_pooled = n_pooled
        self.n_groups = n_groups
        self.epoch = 0

    def __len__(self):
        return self.n_batches

    def __iter__(self):
        worker = torch.utils.data.get_worker_info()
        rank, n_workers = (worker.id, worker.num_workers) if worker else (0, 1)
        start = self.epoch * self.n_batches
        stream = batches(
            self.source,
            self.sampler,
            batch_size=self.batch_size,
            seed=self.seed,
            start=start,
            n_pooled=self.n_pooled,
            n_groups=self.n_groups,
        )
        for i in range(self.n_batches):
            batch = next(stream)
            if i % n_workers == rank:
                yield batch


class MetaNet(NeuralNet):
    """skorch's training loop over batches of tasks.

    Parameters
    ----------
    precision : {"auto", "float32", "bfloat16"}, default="auto"
        See :func:`meta_train`.
    """

    def __init__(self, *args, precision="auto", **kwargs):
        super().__init__(*args, **kwargs)
        self.precision = precision

    def infer(self, x, **fit_params):
        use = self.precision == "bfloat16" or (
            self.precision == "auto" and gains_from_bfloat16(self.device)
        )
        with torch.autocast(torch.device(self.device).type, torch.bfloat16, enabled=use):
            return super().infer(x, **fit_params)

    def initialize_criterion(self):
        self.criterion_ = self.criterion  # a function: it has no parameters and no state
        return self

    def get_loss(self, y_pred, y_true, X=None, training=False):
        return self.criterion_(y_pred, y_true.to(y_pred.device))

    def train_step_single(self, batch, **fit_params):
        """Gradient of a batch: the groups' gradients add up, so only one group is in memory."""
        self._set_training(True)
        losses = []
        for inputs, target in batch:
            logits = self.infer(inputs, **fit_params)
            losses.append(self.get_loss(logits, target, training=True) / len(batch))
            losses[-1].backward()
        return {"loss": torch.stack(losses).detach().sum(), "y_pred": logits}

    def validation_step(self, batch, **fit_params):
        step = super().validation_step(batch, **fit_params)
        target = batch[1].to(step["y_pred"].device)
        asked = target != IGNORE
        hit = (step["y_pred"].argmax(-1) == target) & asked
        accuracy = (hit.sum(1) / asked.sum(1).clamp(min=1)).mean().item()
        self.history.record_batch("valid_accuracy", accuracy)
        return step


def episode_loss(logits, target):
    """Eq. (10): mean over the rows to be predicted of each task, then over tasks.

    Parameters
    ----------
    logits : tensor of shape (B, N, C)
    target : int tensor of shape (B, N)
        ``IGNORE`` for rows that are not to be predicted.
    """
    loss = torch.nn.functional.cross_entropy(
        logits.float().transpose(1, 2), target, ignore_index=IGNORE, reduction="none"
    )
    return (loss.sum(1) / (target != IGNORE).sum(1).clamp(min=1)).mean()


def rate_at(step, n_steps, n_warmup, n_cycles):
    """Factor of the learning rate: linear warm-up, then ``n_cycles`` cosine falls to zero."""
    if step < n_warmup:
        return (step + 1) / n_warmup
    position = n_cycles * (step - n_warmup) / max(n_steps - n_warmup, 1)
    return 0.0 if position >= n_cycles else 0.5 * (1 + math.cos(math.pi * (position % 1)))


def gains_from_bfloat16(device):
    """Whether autocast to bfloat16 is faster than float32 on a device."""
    if torch.device(device).type == "cuda":
        return torch.cuda.is_bf16_supported()
    supported = getattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)
    return torch.device(device).type == "cpu" and bool(supported())


class Patience(Callback):
    """Ends training after some epochs without a lower validation loss; None never does.

    The history is all it looks at, so a resumed run ends where the whole one would.
    """

    def __init__(self, n_epochs):
        self.n_epochs = n_epochs

    def is_over(self, history):
        if self.n_epochs is None or not history:
            return False
        losses = history[:, "valid_loss"]
        return len(losses) - losses.index(min(losses)) > self.n_epochs

    def on_epoch_end(self, net, **kwargs):
        if self.is_over(net.history):
            raise KeyboardInterrupt  # which skorch takes for the end of the run


class Progress(Callback):
    """One progress bar over all steps, with the last validation figures beside it."""

    def __init__(self, n_steps):
        self.n_steps = n_steps

    def on_train_begin(self, net, **kwargs):
        done = sum(epoch.get("train_batch_count", 0) for epoch in net.history)
        self.bar_ = tqdm(total=self.n_steps, initial=done, desc="meta_fit", unit="step")

    def on_batch_end(self, net, training=False, **kwargs):
        if training:
            self.bar_.update()

    def on_epoch_end(self, net, **kwargs):
        shown = ("train_loss", "valid_loss", "valid_accuracy")
        self.bar_.set_postfix(
            {k: f"{net.history[-1][k]:.4f}" for k in shown if k in net.history[-1]}
        )

    def on_train_end(self, net, **kwargs):
        self.bar_.close()


def _only(items):
    (item,) = items
    return item

"""Meta-training: Algorithm 1 of paper 000 on skorch.

One *step* is one batch of tasks; one skorch *epoch* is the ``eval_every`` steps between two
validations. A checkpoint is written at the end of each epoch. A batch consists of groups of tasks
of similar size; several processes share the groups of each batch.
"""

import hashlib
import json
import math

import torch
from skorch.callbacks import GradientNormClipping, LRScheduler
from skorch.helper import predefined_split
from torch.optim.lr_scheduler import LambdaLR

from .callbacks import Divergence, MovingAverage, Patience, Progress, StratumScores
from .checkpoint import Checkpoint
from .distributed import OneProcess, is_first_process, processes
from .fingerprint import described
from .meta_net import Loss, MetaNet
from .optimizers import OPTIMIZERS, import_compiler, rate_at, rates
from .settings import check_settings
from .tasks import batches, names_in
from .tasks.sources import suited
from .tasks.stream import Batches, EpisodeStream, end_with_parent, killed_workers_told
from .user_warnings import warn


def meta_train(
    learner,
    source,
    sampler,
    *,
    validation_source=None,
    max_steps=20_000,
    batch_size=8,
    learning_rate=2e-3,
    rate_factors=None,
    optimizer="adamw",
    weight_decay=0.01,
    n_warmup=None,
    schedule="cosine",
    clip=1.0,
    eval_every=500,
    n_validation=32,
    patience=None,
    keep="best",
    validate_start=False,
    ema_decay=None,
    callbacks=None,
    checkpoint_dir=None,
    start=None,
    device="cpu",
    precision="auto",
    n_workers=0,
    n_pooled=16,
    n_groups=4,
    alone=False,
    random_state=0,
    verbose=True,
):
    """Minimise the expected loss on held-out labels: Algorithm 1 and Eq. (10) of paper 000.

    Parameters
    ----------
    learner : Learner
        Trained in place.
    source, validation_source : object with ``draw(rng) -> Dataset``
        Where training and validation tasks come from. Without a validation source there is no
        early stopping, and the last weights are kept.
    sampler : EpisodeSampler or like it
        See :func:`sklearn_meta.tasks.batches`. Its ``strata(inputs)`` returns a number for each
        task of a group; scores are averaged for each number. ``stratum`` names it in the history.
    max_steps : int, default=20000
        Above ``eval_every``, rounded up to a multiple of it.
    batch_size : int, default=8
        Tasks per step, of all processes together.
    learning_rate, weight_decay : float, default=2e-3 and 0.01
    rate_factors : dict, default=None
        Pattern of names, such as "head.*", -> factor on the rate for those parameters. Randomly
        initialised kernels and penalties need their ``rate_factor``.
    optimizer : {"adagrad", "adamw", "muon", "rmsprop"}, default="adamw"
        RMSprop has the decay of 0.95 and the momentum of 0.9 of paper 002; Muon is
        :class:`sklearn_meta.optimizers.MuonAdamW`.
    schedule : {"cosine", "noam", "constant"}, default="cosine"
        Course of the learning rate after ``n_warmup`` steps: to zero along a cosine, with the
        inverse square root of the steps (Vaswani et al., 2017, whom paper 003 cites), or constant.
    n_warmup : int, default=None
        Steps over which the rate rises linearly. None means 100, or a tenth of ``max_steps`` if
        that is less.
    clip : float, default=1.0
        Largest norm of the gradient.
    eval_every : int, default=500
        Steps between validations, and between checkpoints.
    n_validation : int, default=32
        Batches of validation tasks, drawn once.
    patience : int, default=None
        Validations without a better loss after which training stops; None never stops.
    keep : {"best", "last"}, default="best"
        Whether to keep the weights of the lowest validation loss, or the last ones. At a high
        learning rate the lowest loss of a few tasks is luck, and annealing is worth more.
    validate_start : bool, default=False
        Whether to validate the initial weights, too, and keep them if no others have a lower loss:
        for weights that were trained before.
    ema_decay : float, default=None
        Decay of an exponential moving average of the weights, such as 0.999. The average is
        validated and kept in place of the weights.
    callbacks : list of skorch callbacks, default=None
        Called in every process. One that ends training must do so at the same epoch in all.
    checkpoint_dir : path, default=None
        Folder for ``checkpoint.safetensors``. If there is one already, training resumes from it.
    start : str, default=None
        Identifier of the initial weights, such as their
        :func:`~sklearn_meta.fingerprint.weights_digest`. A checkpoint of a run with another
        identifier is refused.
    device : str, default="cpu"
    precision : {"auto", "float32", "bfloat16"}, default="auto"
        "bfloat16" runs the forward pass under autocast; "auto" does so if the device benefits.
    n_workers : int, default=0
        Processes that prepare batches, each one pool ahead. The tasks drawn do not depend on their
        number. Where Python does not fork them (macOS, Windows, from Python 3.14 on everywhere),
        the call must be below ``if __name__ == "__main__":`` and its sources must be picklable.
    n_pooled, n_groups : int, default=16 and 4
        ``n_pooled`` is the number of batches drawn at a time; their tasks are sorted by size, which
        saves padding. ``n_groups`` is the number of groups of similar size in a batch, whose
        gradients add up to one step. Several processes take equally many groups each. If
        ``n_groups`` is None, there are up to four groups of eight or more tasks on a GPU (fewer if
        processes share them), and groups of two tasks on a CPU, or of one if ``batch_size`` is odd.
    alone : bool, default=False
        Whether each of several processes does all the work, for example if a step is one task.
    random_state : int, default=0
    verbose : bool, default=True
        Whether to show a progress bar.

    Returns
    -------
    history : skorch.history.History
        For each epoch ``train_loss``, ``valid_loss``, ``valid_accuracy`` and, for each number K of
        labelled rows (per class), ``valid_accuracy_K_shots``; or ``mse`` in place of ``accuracy``.

    Raises
    ------
    ValueError
        If the optimizer or schedule is unknown, a setting is out of range, no table suits the
        sampler, the checkpoint is of other tables or settings, the processes do not share
        one run or cannot share a batch equally, or the loss is no longer finite.
    OSError
        If the checkpoint cannot be written, or a worker is killed.
    """
    check_settings(locals())
    shared = OneProcess(device) if alone else processes(device)
    if batch_size % shared.count:
        raise ValueError(
            f"batch_size={batch_size} cannot be shared equally by {shared.count} processes: make "
            "it a multiple of their number."
        )
    max_steps, batch_size = int(max_steps), int(batch_size)
    n_warmup = min(100, max(max_steps // 10, 1)) if n_warmup is None else n_warmup
    if n_groups is None:
        n_groups = groups_for(device, batch_size)
    learning_rate = float(learning_rate)  # factors times a numpy float32 would be rounded
    eval_every = int(min(eval_every, max_steps))
    n_epochs = math.ceil(max_steps / eval_every)
    run = {
        "max_steps": max_steps,
        "eval_every": eval_every,
        "batch_size": batch_size,
        "n_pooled": n_pooled,
        "n_groups": n_groups,
        "ema_decay": ema_decay,
        "rate": [schedule, learning_rate, optimizer, rate_factors],
        "random_state": random_state,
        "start": start,
        "learner": learner.config,
        "tables": _fingerprint(source),
        "validation_tables": validation_source is not None and _fingerprint(validation_source),
        "weight_decay": weight_decay,
        "warmup": n_warmup,
        "clip": clip,
        "n_validation": n_validation,
    }
    if checkpoint_dir is not None or shared.count > 1:  # hashing large tables takes a while
        run["sampler"] = described(sampler)
        run["data"] = {"train": described(source), "validation": described(validation_source)}
    # Each process takes its share of the groups, so their number is a multiple of the processes'.
    each = math.gcd(max(n_groups // shared.count, 1), batch_size // shared.count)
    dealt = {
        "batch_size": batch_size,
        "n_groups": shared.count * each,
        "share": (shared.rank, shared.count),
    }
    kind, settings = OPTIMIZERS[optimizer]
    stream = EpisodeStream(
        suited(source, sampler),
        sampler,
        n_batches=eval_every,
        seed=[random_state, 0],
        n_pooled=n_pooled,
        **dealt,
    )
    average = MovingAverage(learner, ema_decay)
    checkpoint = Checkpoint(checkpoint_dir, run, average)
    # Divergence in the first epoch is an error even if the initial weights could be kept.
    divergence = Divergence(
        lambda: keep == "best" and checkpoint.best is not None and len(net.history) > 1
    )
    own = [
        divergence,
        GradientNormClipping(clip),
        LRScheduler(
            LambdaLR,
            # skorch resumes a schedule at the number of epochs, not of steps: count them here.
            lr_lambda=lambda step: rate_at(
                step + checkpoint.n_epochs * eval_every,
                n_epochs * eval_every,
                n_warmup,
                schedule,
            ),
            last_epoch=-1,
            step_every="batch",
        ),
        average,
    ]
    validation = None
    if validation_source is not None:
        final = sampler.at(max_steps * batch_size) if hasattr(sampler, "at") else sampler
        draws = batches(suited(validation_source, final), final, seed=[random_state, 1], **dealt)
        validation = [next(draws) for _ in range(n_validation)]
        own.append(StratumScores(learner.head.score_name, sampler.stratum, shared.gather))
    own.append(checkpoint)
    if verbose and is_first_process():
        own.append(Progress(n_epochs * eval_every, learner.head.score_name))
    # Last, so that every other callback sees the epoch at which it ends the run.
    stop = Patience(patience if validation else None)
    net = MetaNet(
        learner,
        criterion=Loss,
        criterion__function=learner.head.loss,
        optimizer=kind,
        optimizer__weight_decay=weight_decay,
        **{f"optimizer__{name}": value for name, value in settings.items()},
        optimizer__param_groups=rates(learning_rate, rate_factors or {}),
        lr=learning_rate,
        max_epochs=n_epochs,
        batch_size=1,  # one item is a pool of batches of tasks, or one validation batch
        iterator_train=Batches,
        iterator_train__collate_fn=_only,
        iterator_train__num_workers=n_workers,
        iterator_train__worker_init_fn=end_with_parent,
        iterator_train__prefetch_factor=1 if n_workers else None,  # one pool per worker
        iterator_valid__collate_fn=_only,
        train_split=validation and predefined_split(validation),
        callbacks=[*own, *(callbacks or []), stop],
        callbacks__print_log=None,
        device=shared.device,
        precision=precision,
        average=average,
        processes=shared,
        strata=sampler.strata,
        seed=random_state,
        verbose=0,
    )
    import_compiler()
    net.initialize()
    average.learner.to(shared.device)
    checkpoint.restore(net)
    checkpoint.compare(shared.gather)
    if validate_start and validation and not net.history:
        checkpoint.begin(net.validation_loss(validation))
    learner.train()
    stops = described(callbacks, depth=2)  # now: callbacks change during training
    is_over = stop.is_over(net.history) or checkpoint.is_ended(stops)
    left = 0 if is_over else max(n_epochs - checkpoint.n_epochs, 0)
    history = net.history  # some callbacks replace it at the end by that of the best epoch
    with killed_workers_told():
        net.partial_fit(stream, epochs=left)  # returns quietly at a KeyboardInterrupt
    n_done = sum("train_loss" in epoch for epoch in history)
    if n_done == 0:
        raise KeyboardInterrupt(
            f"Training ended before its first {eval_every} steps were complete: nothing is kept."
        )
    if n_done < n_epochs and not stop.is_over(history):
        # The user's callbacks run after the checkpoint and before ``stop``: if ``stop`` has not
        # seen the last epoch that the checkpoint saw, a user's callback ended the run.
        if callbacks and checkpoint.n_seen == n_done > stop.n_seen:
            checkpoint.end(stops)
        if not divergence.has_come:  # divergence has warned already
            warn(
                f"An interrupt or a callback ended meta-training after {n_done} of {n_epochs} "
                f"times {eval_every} steps."
            )
    if validation and keep == "best" and checkpoint.best is None:
        warn(
            "No validation loss was finite, so the last weights are kept: look for values in the "
            "validation data that are far too large, or lower learning_rate.",
        )
    if keep == "best" and checkpoint.best_is_start:
        warn(
            f"No validation loss was lower than {checkpoint.best_loss:.4f}, that of the initial "
            "weights, which are kept: give more tables, lower learning_rate, or use these weights "
            "as they are.",
        )
    kept = checkpoint.best if keep == "best" else None
    learner.load_state_dict(kept or average.learner.state_dict())
    learner.eval()
    return history


def groups_for(device, batch_size):
    """Number of groups of tasks in which a device reads a batch fastest, an int."""
    if torch.device(device).type == "cpu":
        # A core is fastest on what its cache holds, and two tasks need little padding.
        return batch_size // math.gcd(batch_size, 2)
    # A GPU finishes thirty small tasks before its host has launched the next ones.
    return max(n for n in range(1, 5) if n == 1 or (batch_size % n == 0 and batch_size >= 8 * n))


def _fingerprint(source):
    """Hash of the names of a source's tables: a table that could not be loaded changes it."""
    return hashlib.sha256(json.dumps(names_in(source)).encode()).hexdigest()


def _only(items):
    (item,) = items
    return item

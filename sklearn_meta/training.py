"""Meta-training: Algorithm 1 of paper 000 on skorch.

One *step* is one batch of tasks; one skorch *epoch* is the ``eval_every`` steps between two
looks at the validation tasks. A checkpoint is written at the end of each epoch. A batch comes in
groups of tasks of like size; several processes share the groups of each batch.
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
        Where training and validation tasks come from. Without a validation source there is
        neither early stopping nor a best state: the last weights stand.
    sampler : EpisodeSampler or like it
        See :func:`sklearn_meta.tasks.batches`. Its ``strata(inputs)`` is a number for each task
        of a group, by which scores are told apart, and ``stratum`` what the history calls it.
    max_steps : int, default=20000
        Above ``eval_every`` made a multiple of it, rounded up.
    batch_size : int, default=8
        Tasks a step, of all processes together.
    learning_rate, weight_decay : float, default=2e-3 and 0.01
    rate_factors : dict, default=None
        Pattern of names, such as "head.*", -> factor on the rate for those parameters. Kernels and
        penalties that begin at random want their ``rate_factor``.
    optimizer : {"adagrad", "adamw", "muon", "rmsprop"}, default="adamw"
        RMSprop has the decay of 0.95 and the momentum of 0.9 of paper 002; Muon is
        :class:`sklearn_meta.optimizers.MuonAdamW`.
    schedule : {"cosine", "noam", "constant"}, default="cosine"
        How the learning rate runs after ``n_warmup`` steps: to zero along a cosine, with the
        inverse square root of the steps (Vaswani et al., 2017, whom paper 003 cites), or not.
    n_warmup : int, default=None
        Steps over which the rate rises linearly. None is 100, or a tenth of fewer than 1,000.
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
    validate_start : bool, default=False
        Whether the weights that training begins with are validated, too, and stand in the end if
        none has a lower loss: for those that have learned before.
    ema_decay : float, default=None
        Decay of an exponential moving average of the weights, such as 0.999, which is validated
        and kept in place of the weights.
    callbacks : list of skorch callbacks, default=None
        Called in every process, where one that ends training must do so at the same epoch.
    checkpoint_dir : path, default=None
        Folder for ``checkpoint.safetensors``. If one is there, training goes on from it.
    start : str, default=None
        What tells the weights that training begins with from others, such as their
        :func:`~sklearn_meta.fingerprint.weights_digest`: a checkpoint of others is refused.
    device : str, default="cpu"
    precision : {"auto", "float32", "bfloat16"}, default="auto"
        bfloat16 runs the forward pass under autocast; "auto" does where the device gains.
    n_workers : int, default=0
        Processes that prepare batches, a pool each, and one more that waits; what is drawn is the
        same for any number.
    n_pooled, n_groups : int, default=16 and 4
        Batches drawn at a time, over which tasks are sorted by size so that little is padded,
        and groups of like size that make a batch: their gradients add up to one step. Of several
        processes each takes as many of the groups. If ``n_groups`` is None, there are up to four
        on a GPU, of eight tasks or more (fewer where processes share them), and on a CPU groups of
        two tasks, or of one where ``batch_size`` is odd.
    alone : bool, default=False
        Whether each of several processes does all the work, as where a step is one task.
    random_state : int, default=0
    verbose : bool, default=True
        Whether to show a progress bar.

    Returns
    -------
    history : skorch.history.History
        ``train_loss``, ``valid_loss``, and by epoch and number K of labelled rows (a class)
        ``valid_accuracy`` and ``valid_accuracy_K_shots``; or ``mse`` for ``accuracy``.

    Raises
    ------
    ValueError
        If there is no such optimizer or schedule, a setting is no such number, no table suits the
        sampler, the checkpoint is not one of these tables and settings, the processes do not share
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
    learning_rate = float(learning_rate)  # of float32 its factors would be rounded
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
    if checkpoint_dir is not None or shared.count > 1:  # large tables take a while
        run["sampler"] = described(sampler)
        run["data"] = {"train": described(source), "validation": described(validation_source)}
    # Each process takes its share of the groups, so there must be as many or a multiple.
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
    # Of the first epoch it is an error even where there are weights of before training.
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
    # Last, so that every other callback has seen the epoch at which it ends the run.
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
        batch_size=1,  # an item is a list of whole batches of tasks, or one of validation
        iterator_train=Batches,
        iterator_train__collate_fn=_only,
        iterator_train__num_workers=n_workers,
        iterator_train__worker_init_fn=end_with_parent,
        iterator_train__prefetch_factor=1 if n_workers else None,  # a pool each
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
    stops = described(callbacks, depth=2)  # now, since they change while they run
    is_over = stop.is_over(net.history) or checkpoint.is_ended(stops)
    left = 0 if is_over else max(n_epochs - checkpoint.n_epochs, 0)
    history = net.history  # in the end some callbacks put that of the best epoch in its place
    with killed_workers_told():
        net.partial_fit(stream, epochs=left)  # which ends quietly at a KeyboardInterrupt
    n_done = sum("train_loss" in epoch for epoch in history)
    if n_done == 0:
        raise KeyboardInterrupt(
            f"Training ended before its first {eval_every} steps were complete: nothing is kept."
        )
    if n_done < n_epochs and not stop.is_over(history):
        # Between the checkpoint's look at an epoch and the last one come the user's callbacks.
        if callbacks and checkpoint.n_seen == n_done > stop.n_seen:
            checkpoint.end(stops)
        if not divergence.has_come:  # which has told so itself
            warn(
                f"Meta-training was ended by an interrupt or a callback after {n_done} of "
                f"{n_epochs} times {eval_every} steps."
            )
    if validation and keep == "best" and checkpoint.best is None:
        warn(
            "No validation loss was finite, so the last weights are kept: look for values in the "
            "validation data that are far too large, or lower learning_rate.",
        )
    if keep == "best" and checkpoint.best_is_start:
        warn(
            f"No validation loss was lower than {checkpoint.best_loss:.4f}, that of the weights "
            "training began with, which are kept: give more tables, lower learning_rate, or use "
            "them as they are.",
        )
    kept = checkpoint.best if keep == "best" else None
    learner.load_state_dict(kept or average.learner.state_dict())
    learner.eval()
    return history


def groups_for(device, batch_size):
    """In how many groups of tasks a device reads a batch fastest, an int."""
    if torch.device(device).type == "cpu":
        # A core is fastest on what its cache holds, and two tasks are nearly of one size.
        return batch_size // math.gcd(batch_size, 2)
    # A GPU is through with thirty small tasks before its host has launched the next ones.
    return max(n for n in range(1, 5) if n == 1 or (batch_size % n == 0 and batch_size >= 8 * n))


def _fingerprint(source):
    """Tells apart sources of other tables: one that could not be loaded makes another run."""
    return hashlib.sha256(json.dumps(names_in(source)).encode()).hexdigest()


def _only(items):
    (item,) = items
    return item

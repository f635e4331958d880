"""The stream of meta-training: batches of tasks, each in groups of similar size."""

import math
import multiprocessing
import os
import pickle
import signal
import threading
import time
from contextlib import contextmanager
from functools import partial
from itertools import islice
from typing import NamedTuple

import numpy as np
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from ..interrupts import deferred_interrupts


def batches(source, sampler, *, batch_size, seed, start=0, n_pooled=16, n_groups=4, share=(0, 1)):
    """Endless batches of tasks, each in groups of similar size.

    Tasks are drawn in pools of ``n_pooled`` batches, sorted by ``sampler.size`` and cut into
    groups, so that little padding is needed. The groups of a pool are then assigned to its batches
    at random, so that a batch has small and large tasks. Pool p depends on ``(seed, p)`` alone, so
    a stream can be resumed at any batch.

    Parameters
    ----------
    source : object with ``draw(rng) -> Dataset``
    sampler : object
        With ``draw(dataset, rng) -> task``, ``size(task)``, by which tasks are sorted, and
        ``collate(tasks) -> (inputs, target)``, such as :class:`sklearn_meta.tasks.EpisodeSampler`;
        or with ``at(n_drawn)``, which returns the sampler to use after a number of tasks, such as
        :class:`sklearn_meta.tasks.Curriculum`.
    batch_size : int
        Tasks per batch.
    seed : int or sequence of int
    start : int, default=0
        Number of batches to skip.
    n_pooled : int, default=16
        Batches per pool; with more, less padding is needed.
    n_groups : int, default=4
        Groups per batch; fewer if this does not divide ``batch_size``. Each group is one call of
        the backbone; with more groups, batches are more mixed.
    share : (int, int), default=(0, 1)
        Rank and number of the processes that share the groups of each batch equally.

    Yields
    ------
    groups : list of (inputs, target)
        Results of ``sampler.collate``.
    """
    settings = {"batch_size": batch_size, "seed": seed, "n_groups": n_groups}
    pool, skip = divmod(start, n_pooled)
    while True:
        drawn = _draw(source, sampler, pool, n_pooled=n_pooled, **settings)
        yield from drawn.collated(share, skip)
        pool, skip = pool + 1, 0


class _Pool(NamedTuple):
    """Tasks, the sampler that drew them, and their indices in batches (n_batches, n_groups, n)."""

    tasks: list
    groups: np.ndarray
    sampler: object

    def collated(self, share, skip):
        """Yield one process's groups of each batch, after the first ``skip`` batches."""
        rank, n_processes = share
        for members in self.groups[skip:, rank::n_processes]:
            yield [self.sampler.collate([self.tasks[i] for i in group]) for group in members]


def _draw(source, sampler, pool, *, batch_size, seed, n_pooled, n_groups):
    """Draw a pool of tasks, which depends on its number and the seed alone."""
    n_groups = math.gcd(n_groups, batch_size)
    rng = np.random.default_rng([*np.ravel(seed), pool])  # numpy 2.5 refuses nested lists
    n_tasks = n_pooled * batch_size
    here = sampler.at(pool * n_tasks) if hasattr(sampler, "at") else sampler
    tasks = [here.draw(source.draw(rng), rng) for _ in range(n_tasks)]
    order = sorted(range(len(tasks)), key=lambda i: here.size(tasks[i]))
    groups = rng.permutation(np.reshape(order, (n_pooled * n_groups, -1)))
    return _Pool(tasks, groups.reshape(n_pooled, n_groups, -1), here)


class EpisodeStream(IterableDataset):
    """Dataset of the batches of one epoch after another; ``epoch`` is the next one to read.

    Each item holds the batches of one pool, so that workers draw different pools at the same time
    and the order of batches does not depend on the number of workers.

    Parameters
    ----------
    source, sampler, **settings
        See :func:`batches`.
    n_batches : int
        Batches per epoch.
    """

    def __init__(self, source, sampler, *, n_batches, n_pooled, share=(0, 1), **settings):
        self.n_batches = n_batches
        self.n_pooled = n_pooled
        self.share = share
        self.draw = partial(_draw, source, sampler, n_pooled=n_pooled, **settings)
        self.epoch = 0
        self._last = None, None

    def __len__(self):
        return self.n_batches

    def __iter__(self):
        worker = get_worker_info()
        rank, n_workers = (worker.id, worker.num_workers) if worker else (0, 1)
        start = self.epoch * self.n_batches
        end = start + self.n_batches
        n = self.n_pooled
        for pool in range(start // n + rank, -(-end // n), n_workers):
            skip = max(start - pool * n, 0)
            part = islice(self._pool(pool).collated(self.share, skip), end - pool * n - skip)
            # Send bytes: each of the many tensors would take a file descriptor of its own.
            yield pickle.dumps(list(part)) if worker else part

    def _pool(self, number):
        """Draw a pool, or return the last one, within which the next epoch may begin."""
        if self._last[0] != number:
            self._last = number, self.draw(number)
        return self._last[1]


def end_with_parent(worker_id):
    """Make a worker process end when its parent ends, in whatever way.

    PyTorch itself checks the parent only between two items, and a worker never gets there if it
    sends an item larger than the buffer of a pipe that nobody reads. Workers ignore Ctrl-C, which
    a terminal sends to all processes: the parent handles it, and would fail if a worker had ended.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = os.getppid()

    def watch():
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class Batches(DataLoader):
    """Loader of the batches of an :class:`EpisodeStream`, one by one."""

    def __iter__(self):
        with deferred_interrupts():  # during a fork one would be lost, or end a worker
            pools = super().__iter__()
        for pool in pools:
            yield from pickle.loads(pool) if isinstance(pool, bytes) else pool


@contextmanager
def killed_workers_told():
    """Turn PyTorch's error for a killed worker, raised anywhere in the parent, into advice."""
    try:
        yield
    except RuntimeError as error:
        if not str(error).startswith("DataLoader worker (pid"):
            raise
        guard = ""
        if multiprocessing.get_start_method() != "fork":
            guard = (
                ' If your script lacks `if __name__ == "__main__":`, make the call below one: '
                "processes that are not forked import the script, and each would start training."
            )
        raise ChildProcessError(
            f"A process that prepares tasks was killed ({error}), perhaps because memory ran "
            f"out: lower n_workers. With a checkpoint_dir the same call resumes training.{guard}"
        ) from error

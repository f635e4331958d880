"""The stream of meta-training: tasks in batches, and each batch in groups of like size."""

import math

import numpy as np


def batches(source, sampler, *, batch_size, seed, start=0, n_pooled=16, n_groups=4, share=(0, 1)):
    """Endless batches of tasks, each in groups of like size.

    Tasks are drawn in pools of ``n_pooled`` batches, sorted by ``sampler.size`` and cut into
    groups, so that little is padded; then the groups of a pool are dealt to its batches at random,
    so that a batch holds small and large tasks. Pool p depends on ``(seed, p)`` alone, so a stream
    can be taken up again at any batch.

    Parameters
    ----------
    source : object with ``draw(rng) -> Dataset``
    sampler : object
        With ``draw(dataset, rng) -> task``, ``size(task)``, by which tasks are sorted, and
        ``collate(tasks) -> (inputs, target)``, such as
        :class:`sklearn_meta.tasks.EpisodeSampler`; or with ``at(n_drawn)``, which says which
        such sampler comes after a number of tasks, such as
        :class:`sklearn_meta.tasks.Curriculum`.
    batch_size : int
        Tasks a batch.
    seed : int
    start : int, default=0
        Number of batches to skip.
    n_pooled : int, default=16
        Batches a pool: the more, the less is padded.
    n_groups : int, default=4
        Groups a batch; fewer if they do not divide ``batch_size``. One group is one call of the
        backbone: the more, the more mixed the batch.
    share : (int, int), default=(0, 1)
        Rank and number of the processes that share the groups of each batch equally.

    Yields
    ------
    groups : list of (inputs, target)
        What ``sampler.collate`` makes of them.
    """
    n_groups = math.gcd(n_groups, batch_size)
    rank, n_processes = share
    pool, skip = divmod(start, n_pooled)
    while True:
        rng = np.random.default_rng([seed, pool])
        n_tasks = n_pooled * batch_size
        here = sampler.at(pool * n_tasks) if hasattr(sampler, "at") else sampler
        tasks = [here.draw(source.draw(rng), rng) for _ in range(n_tasks)]
        order = sorted(range(len(tasks)), key=lambda i: here.size(tasks[i]))
        groups = rng.permutation(np.reshape(order, (n_pooled * n_groups, -1)))
        for members in groups.reshape(n_pooled, n_groups, -1)[skip:]:
            mine = members[rank::n_processes]
            yield [here.collate([tasks[i] for i in group]) for group in mine]
        pool, skip = pool + 1, 0

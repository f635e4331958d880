"""Tasks: where datasets come from, and how few-shot tasks are drawn from them."""

from .batch import collate, context_task, groups_of_like_size
from .circle_spiral import CircleSpiral, circle_spiral_tasks
from .collections import Folder, select, split
from .dataset import Dataset, RawTable, Task
from .encoding import TableEncoder, stack_tables
from .episodes import EpisodeSampler
from .mixtures import MixturePrior, MixtureSampler, MixtureSets
from .openml import OpenMLCollection
from .outlier_episodes import OutlierSampler
from .prior import TablePrior
from .regression_episodes import RegressionSampler, n_targets, target_scale
from .regression_prior import RegressionPrior
from .sources import Mixture, Tables, as_dataset, as_source, names_in
from .stream import batches

__all__ = [
    "CircleSpiral",
    "Dataset",
    "EpisodeSampler",
    "Folder",
    "Mixture",
    "MixturePrior",
    "MixtureSampler",
    "MixtureSets",
    "OpenMLCollection",
    "OutlierSampler",
    "RawTable",
    "RegressionPrior",
    "RegressionSampler",
    "TableEncoder",
    "TablePrior",
    "Tables",
    "Task",
    "as_dataset",
    "as_source",
    "batches",
    "circle_spiral_tasks",
    "collate",
    "context_task",
    "groups_of_like_size",
    "n_targets",
    "names_in",
    "select",
    "split",
    "stack_tables",
    "target_scale",
]

"""Tasks: where datasets come from, and how few-shot tasks are drawn from them."""

from .batch import collate, context_task, groups_of_like_size
from .circle_spiral import CircleSpiral, circle_spiral_tasks
from .collections import Folder, select, split
from .dataset import Dataset, RawTable, Task
from .encoding import TableEncoder, stack_tables
from .episodes import EpisodeSampler
from .gaussian_process_prior import GaussianProcessPrior
from .mixtures import MixturePrior, MixtureSampler, MixtureSets
from .omniglot import Drawings, Omniglot, fetch_omniglot, load_omniglot
from .openml import OpenMLCollection
from .outlier_episodes import OutlierSampler
from .prior import TablePrior
from .regression_episodes import RegressionSampler, n_targets, target_scale
from .regression_prior import RegressionPrior
from .sequences import (
    ClassSequences,
    Curriculum,
    ProjectedColumns,
    TargetSequences,
    Vectors,
    draw_words,
)
from .sources import Mixture, Tables, as_dataset, as_source, names_in
from .stream import batches

__all__ = [
    "CircleSpiral",
    "ClassSequences",
    "Curriculum",
    "Dataset",
    "Drawings",
    "EpisodeSampler",
    "Folder",
    "GaussianProcessPrior",
    "Mixture",
    "MixturePrior",
    "MixtureSampler",
    "MixtureSets",
    "Omniglot",
    "OpenMLCollection",
    "OutlierSampler",
    "ProjectedColumns",
    "RawTable",
    "RegressionPrior",
    "RegressionSampler",
    "TableEncoder",
    "TablePrior",
    "Tables",
    "TargetSequences",
    "Task",
    "Vectors",
    "as_dataset",
    "as_source",
    "batches",
    "circle_spiral_tasks",
    "collate",
    "context_task",
    "draw_words",
    "fetch_omniglot",
    "groups_of_like_size",
    "load_omniglot",
    "n_targets",
    "names_in",
    "select",
    "split",
    "stack_tables",
    "target_scale",
]

"""Tasks: where datasets come from, and how few-shot tasks are drawn from them."""

from .batch import collate, context_task, groups_of_like_size
from .circle_spiral import CircleSpiral, circle_spiral_tasks
from .collections import Folder, select, split
from .dataset import Dataset, RawTable, Task
from .drawings import Drawings
from .encoding import TableEncoder, stack_tables
from .episodes import EpisodeSampler
from .few_shot import NWayKShot, TableEpisodes, deal, in_units_of, moments_of
from .gaussian_process_prior import GaussianProcessPrior
from .images import ImageClasses, Pictures, load_cifar_fs, load_mini_imagenet
from .mixtures import MixturePrior, MixtureSampler, MixtureSets
from .omniglot import Omniglot, fetch_omniglot, load_omniglot
from .openml import OpenMLCollection
from .outlier_episodes import OutlierSampler
from .pairs import as_dataset, rows_as_they_are
from .prior import TablePrior
from .regression_episodes import RegressionSampler, n_targets, target_scale
from .regression_prior import RegressionPrior
from .reviews import load_reviews
from .sequences import (
    ClassSequences,
    Curriculum,
    ProjectedColumns,
    TargetSequences,
    Vectors,
    draw_words,
)
from .sources import Mixture, Tables, as_source, names_in
from .stream import batches
from .symbolic import SymbolicNetworks, make_symbolic_regression
from .tagging import load_conll_folder, load_tagging, read_conll, read_conllu, to_iob2

__all__ = [
    "CircleSpiral",
    "ClassSequences",
    "Curriculum",
    "Dataset",
    "Drawings",
    "EpisodeSampler",
    "Folder",
    "GaussianProcessPrior",
    "ImageClasses",
    "Mixture",
    "MixturePrior",
    "MixtureSampler",
    "MixtureSets",
    "NWayKShot",
    "Omniglot",
    "OpenMLCollection",
    "OutlierSampler",
    "Pictures",
    "ProjectedColumns",
    "RawTable",
    "RegressionPrior",
    "RegressionSampler",
    "SymbolicNetworks",
    "TableEncoder",
    "TableEpisodes",
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
    "deal",
    "draw_words",
    "fetch_omniglot",
    "groups_of_like_size",
    "in_units_of",
    "load_cifar_fs",
    "load_conll_folder",
    "load_mini_imagenet",
    "load_omniglot",
    "load_reviews",
    "load_tagging",
    "make_symbolic_regression",
    "moments_of",
    "n_targets",
    "names_in",
    "read_conll",
    "read_conllu",
    "rows_as_they_are",
    "select",
    "split",
    "stack_tables",
    "target_scale",
    "to_iob2",
]

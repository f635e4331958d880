"""Tasks: where datasets come from, and how few-shot tasks are drawn from them."""

from .batch import collate, context_task
from .circle_spiral import CircleSpiral, circle_spiral_tasks
from .collections import Mixture, Tables, as_dataset, as_source, read_tables
from .dataset import Dataset, Task
from .encoding import TableEncoder
from .episodes import EpisodeSampler, batches
from .prior import TablePrior

__all__ = [
    "CircleSpiral",
    "Dataset",
    "EpisodeSampler",
    "Mixture",
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
    "read_tables",
]

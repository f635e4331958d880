"""Grid of benchmarks/paper_002.py: the methods, tasks and tables, and the paper's results."""

from typing import NamedTuple

#: Instances of a class that are columns of the paper's tables.
INSTANCES = (1, 2, 3, 4, 5, 10)


class Method(NamedTuple):
    """A method of classification.

    Parameters
    ----------
    name : str
    network : dict or None
        Keyword arguments of a MANN; None is the nearest neighbour.
    persistent : bool, default=False
        Whether the memory is kept from episode to episode.
    features : {"pixels", "autoencoder"}, default="pixels"
        Features that the nearest neighbour compares.
    """

    name: str
    network: dict | None
    persistent: bool = False
    features: str = "pixels"


def network(name, controller, access, **options):
    return Method(name, {"controller": controller, "access": access}, **options)


MANN = network("MANN (LRUA), LSTM", "lstm", "lrua")
NOT_WIPED = network("MANN (LRUA), LSTM, not wiped", "lstm", "lrua", persistent=True)
MANN_FEEDFORWARD = network("MANN (LRUA), feed-forward", "feedforward", "lrua")
NTM = network("MANN (NTM), LSTM", "lstm", "ntm")
LSTM = network("LSTM", "lstm", None)
FEEDFORWARD = network("feed-forward", "feedforward", None)
KNN_PIXELS = Method("kNN (raw pixels)", None)
KNN_FEATURES = Method("kNN (deep features)", None, features="autoencoder")


class Task(NamedTuple):
    """Episodes of Omniglot.

    Parameters
    ----------
    name : str
    head : {"onehot", "string"}
        Kind of labels.
    n_classes, n_rows : int
        Maximum number of classes and rows of an episode, in training and in tests.
    steps : int
        Training steps, 16 episodes each.
    start : int, default=None
        Number of classes that training begins with; None begins with all.
    few_until : float, default=0.0
        Share of the training in which an episode has only the words of its classes.
    grown_at : float, default=1.0
        Share of the training after which episodes have all classes; until then their number grows
        by one at a time.
    after : Task, default=None
        Task whose network training starts from.
    tests : tuple of (int, int), default=()
        Classes and rows of test episodes; if empty, those of training.
    """

    name: str
    head: str
    n_classes: int
    n_rows: int
    steps: int
    start: int | None = None
    few_until: float = 0.0
    grown_at: float = 1.0
    after: "Task | None" = None
    tests: tuple = ()


#: A network has few words to choose from until it has learned to use its memory.
EASY = {"start": 5, "few_until": 0.4, "grown_at": 0.7}

ONEHOT_5 = Task("onehot_5", "onehot", 5, 50, 6000)
ONEHOT_10 = Task("onehot_10", "onehot", 10, 75, 4000)
STRING_5 = Task("string_5", "string", 5, 50, 6000, **EASY)
STRING_15 = Task("string_15", "string", 15, 100, 4000, **EASY)
CURRICULUM = Task(
    *("curriculum", "string", 25, 250, 2500),
    start=15,
    after=STRING_15,
    tests=tuple((n, 10 * n) for n in (25, 50, 60, 70, 80, 90, 100)),
)


class Regression(NamedTuple):
    """Functions drawn from a Gaussian process.

    Parameters
    ----------
    name : str
    n_columns : int
    bound : float
        Points are uniform in (-bound, bound); the length scale is 1.
    steps : int, default=4000
    """

    name: str
    n_columns: int
    bound: float
    steps: int = 4000


REGRESSIONS = (
    Regression("regression_1", 1, 3.0),
    Regression("regression_2", 2, 1.5),
    Regression("regression_3", 3, 1.0),
)


class Table(NamedTuple):
    """A table or figure of classification.

    Parameters
    ----------
    title : str
    cells : tuple of (Task, Method)
    paper : dict of (str, str) to tuple of float
        The paper's accuracies in % at INSTANCES, by the names of task and method.
    note : str
        Further remarks for the reader.
    """

    title: str
    cells: tuple
    paper: dict = {}
    note: str = ""


RIVALS = (KNN_PIXELS, KNN_FEATURES, FEEDFORWARD, LSTM, MANN_FEEDFORWARD, MANN, NTM)

EASY_NOTE = (
    "Trainings of all networks begin with five classes and their words alone (40 % of the steps), "
    "without which the use of memory is discovered much later; then with all words and, one at a "
    "time, more classes, all of which are there after 70 %."
)

STRING_NOTE = (
    "A string is right if all five letters are: a guess is right once in 3,125 times. `among` "
    "counts a row as right if, of the strings of its episode's classes, its own has the highest "
    "probability. Nearest neighbours choose among the episode's labels anyway; before there is "
    "any, their guess counts as 1 / number of classes (section 9.1.2). The paper lets its "
    "autoencoder see three times as many drawings as the networks; ours sees as many as a network "
    "in table 1. "
) + EASY_NOTE

TABLES = {
    "table_1": Table(
        "Table 1: one-hot labels, five classes",
        tuple((ONEHOT_5, method) for method in (FEEDFORWARD, LSTM, MANN)),
        {
            ("onehot_5", "feed-forward"): (24.4, 19.6, 21.1, 19.9, 22.8, 19.5),
            ("onehot_5", "LSTM"): (24.4, 49.5, 55.3, 61.0, 63.6, 62.5),
            ("onehot_5", "MANN (LRUA), LSTM"): (36.4, 82.8, 91.0, 92.6, 94.9, 98.1),
        },
    ),
    "table_2": Table(
        "Table 2: string labels, five and fifteen classes",
        tuple((task, method) for task in (STRING_5, STRING_15) for method in RIVALS),
        {
            ("string_5", "kNN (raw pixels)"): (4.0, 36.7, 41.9, 45.7, 48.1, 57.0),
            ("string_5", "kNN (deep features)"): (4.0, 51.9, 61.0, 66.3, 69.3, 77.5),
            ("string_5", "feed-forward"): (0.0, 0.2, 0.0, 0.2, 0.0, 0.0),
            ("string_5", "LSTM"): (0.0, 9.0, 14.2, 16.9, 21.8, 25.5),
            ("string_5", "MANN (LRUA), feed-forward"): (0.0, 8.0, 16.2, 25.2, 30.9, 46.8),
            ("string_5", "MANN (LRUA), LSTM"): (0.0, 69.5, 80.4, 87.9, 88.4, 93.1),
            ("string_15", "kNN (raw pixels)"): (0.5, 18.7, 23.3, 26.5, 29.1, 37.0),
            ("string_15", "kNN (deep features)"): (0.4, 32.7, 41.2, 47.1, 50.6, 60.0),
            ("string_15", "feed-forward"): (0.0, 0.1, 0.0, 0.0, 0.0, 0.0),
            ("string_15", "LSTM"): (0.0, 2.2, 2.9, 4.3, 5.6, 12.7),
            ("string_15", "MANN (LRUA), feed-forward"): (0.1, 12.8, 22.3, 28.8, 32.2, 43.4),
            ("string_15", "MANN (LRUA), LSTM"): (0.1, 62.6, 79.3, 86.6, 88.7, 95.3),
            ("string_15", "MANN (NTM), LSTM"): (0.0, 35.4, 61.2, 71.7, 77.7, 88.4),
        },
        note=STRING_NOTE,
    ),
    "figure_3": Table(
        "Figure 3: memory that is not wiped between episodes, one-hot labels",
        tuple((task, method) for task in (ONEHOT_5, ONEHOT_10) for method in (MANN, NOT_WIPED)),
        note="Not wiped: each of the 16 places of a batch keeps its memory through all of "
        "training, and through all test episodes. The paper has curves and no figures: with five "
        "classes learning is much slower than with wiping, with ten it is comparable.",
    ),
    "figure_4": Table(
        "Figure 4: string labels, a curriculum from 15 classes to 25, tests of up to 100",
        ((CURRICULUM, MANN),),
        note="Ten rows a class. Training goes on from the network of table 2 and has 40,000 "
        "episodes, one class more after each tenth of them; with --factor 2.5 these are the "
        "paper's. Validation episodes have 25 classes throughout; of test episodes there are a "
        "quarter of the tables'. The paper has curves and no figures: accuracy decays gradually "
        "towards 100 classes.",
    ),
}

REGRESSION_NOTE = (
    "Length scale 1, deviation 1, noise 0.05; points are uniform in (-3, 3), (-1.5, 1.5)² and "
    "(-1, 1)³: in a wider cube fifty points would tell even the Gaussian process little."
)

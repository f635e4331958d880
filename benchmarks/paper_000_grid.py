"""Grid of benchmarks/paper_000.py: the methods, tables and figures, and the paper's results."""

from typing import NamedTuple


class Method(NamedTuple):
    """A method of the paper: a backbone and a head.

    Parameters
    ----------
    name : str
        The paper's name of the method.
    backbone, head : str or None
        None for GP and LP, which are not meta-learned.
    backbone_config : dict
        Keyword arguments of the backbone that differ from its defaults.
    rates : dict of str to float
        Learning rates by data, where they differ from `LEARNING_RATE`.
    precision : str
        The precision that is faster on a CPU with bfloat16. In bfloat16, a step of `vsa` takes half
        the time, and a step of `att_hml`, whose products are small, twice the time.
    """

    name: str
    backbone: str | None = None
    head: str | None = None
    backbone_config: dict = {}
    rates: dict = {}
    precision: str = "float32"

    def learning_rate(self, data):
        return self.rates.get(data, LEARNING_RATE)


LEARNING_RATE = 1e-3

#: Rates at which methods made of deep sets (HML, too) were seen to learn on Circle-Spiral.
FASTER = {"circle_spiral": 2e-3, "fresh": 2e-3}

CLASSIFICATION = (
    Method("GP"),
    Method("LP"),
    Method("MAML", "maml", "prototypes", rates=FASTER),
    Method("Proto", "deep_sets", "prototypes", rates=FASTER),
    Method("HML", "hml", "prototypes", rates=FASTER),
    Method("AttHML", "att_hml", "prototypes"),
    Method("SemiProto", "exchangeable", "prototypes"),
    Method("MetaLP", "exchangeable", "label_propagation"),
    Method("AttHMLLP", "att_hml", "label_propagation"),
    Method(
        "Ours",
        "vsa",
        "prototypes",
        rates={"fresh": 1.5e-3, "circle_spiral": 1.5e-3},
        precision="auto",
    ),
)

REGRESSION = (
    Method("GP"),
    Method("MAML", "maml", "gp"),
    Method("MetaGP", "deep_sets", "gp"),
    Method("HML", "hml", "gp"),
    Method("AttHML", "att_hml", "gp"),
    Method("SemiMetaGP", "exchangeable", "gp"),
    Method("Ours", "vsa", "gp", precision="auto"),
)

OURS = CLASSIFICATION[-1]

#: Keyword arguments of heads: the package's defaults where a head's own differ. Eq. (11) with noise
#: is one kernel and one noise for all tables; with it all methods soon predict little but the mean.
HEAD_CONFIG = {"gp": {"n_kernels": 8}}

#: Config of Ours on the paper's own data: the paper's last width. On real tables, the package's.
CONFIG_BY_DATA = dict.fromkeys(("circle_spiral", "fresh"), {"vsa": {"last_width": 1}})


def variant(name, **config):
    """Return Ours with other keyword arguments of the backbone."""
    return OURS._replace(name=name, backbone_config=config)


#: A layer has a block of each kind of attention; with one kind, twice the layers are as deep.
AS_DEEP = {"n_layers": 6}

ABLATIONS = (
    OURS,
    variant("ExampleAttn", attribute_attention=False, **AS_DEEP),
    variant("AttributeAttn", example_attention=False, **AS_DEEP),
    variant("w/oObsInd", observed_indicator=False),
    variant("w/oAttLabInd", kind_indicator=False),
    variant("w/oRes", residual=False),
    variant("w/oLN", layer_norm=False),
)


class Cell(NamedTuple):
    """One training and its test.

    Parameters
    ----------
    method : Method
    data : {"circle_spiral", "fresh", "tables", "regression"}
    split : int
        Seed of the split and of everything random.
    x : int or None
        Position on the axis of a figure.
    n_unlabelled : int
        Unlabelled rows per class in meta-training, and in meta-test if `n_rows` is None.
    n_train : int or None
        Number of meta-training tables; None takes all.
    n_rows : int or None
        Total number of rows of a meta-test task (figure 7).
    n_scored : int or None
        Number of scored rows per class; None scores all rows without a label.
    """

    method: Method
    data: str
    split: int
    x: int | None = None
    n_unlabelled: int = 20
    n_train: int | None = None
    n_rows: int | None = None
    n_scored: int | None = None

    @property
    def task(self):
        return "regression" if self.data == "regression" else "classification"


class Table(NamedTuple):
    """A table or a part of a figure.

    Parameters
    ----------
    title : str
    kind : {"circle_spiral", "tables", "regression"}
        Kind of data; `data_name` of paper_000.py gives the data of a run.
    shots : tuple of int
        Numbers of labelled rows, per class (in total for regression).
    methods : tuple of Method
    cells : tuple of dict
        Fields of a cell other than method, data and split, for each point of a figure.
    axis : str or None
        Label of a figure's `x` axis.
    """

    title: str
    kind: str
    shots: tuple = (1, 3, 5)
    methods: tuple = CLASSIFICATION
    cells: tuple = ({},)
    axis: str | None = None


def points(field, values, **fixed):
    """Return the cells of a figure, one for each value of a field."""
    return tuple({"x": value, field: value, **fixed} for value in values)


def numbered(keyword, values):
    """Return Ours with each value of one keyword of the backbone."""
    return tuple(variant(f"Ours, {value} {keyword[2:]}", **{keyword: value}) for value in values)


REAL = "real tables in place of OpenML"
TABLES = {
    "1a": Table("Table 1 (a): Circle-Spiral, accuracy", "circle_spiral"),
    "1b": Table(f"Table 1 (b): {REAL}, accuracy", "tables"),
    "2a": Table("Table 2 (a): ablations on Circle-Spiral", "circle_spiral", methods=ABLATIONS),
    "2b": Table(f"Table 2 (b): ablations on {REAL}", "tables", methods=ABLATIONS),
    "3": Table("Table 3: time of a training step", "tables"),
    "4": Table(
        f"Table 4: mean squared error on {REAL}", "regression", (10, 15, 20), methods=REGRESSION
    ),
    "5": Table(
        "Figures 4 and 5: Circle and Spiral, and embeddings of their rows",
        "circle_spiral",
        methods=tuple(m for m in CLASSIFICATION if m.name in ("HML", "Proto", "Ours")),
    ),
    "6a": Table(
        "Figure 6 (a)",
        "tables",
        methods=(OURS,),
        cells=points("n_train", (5, 20, 80)),
        axis="meta-training tables",
    ),
    "6b": Table(
        "Figure 6 (b)",
        "tables",
        methods=(OURS,),
        cells=points("n_unlabelled", (5, 10, 20), n_scored=5),
        axis="unlabelled rows a class",
    ),
    "6c": Table(
        "Figure 6 (c)", "tables", methods=numbered("n_layers", (1, 2, 3, 4)), axis="pairs of layers"
    ),
    "6d": Table("Figure 6 (d)", "tables", methods=numbered("n_heads", (1, 2, 4, 8)), axis="heads"),
    "7": Table(
        "Figure 7: Circle-Spiral, 500 rows in meta-test",
        "circle_spiral",
        shots=(1,),
        methods=(OURS,),
        cells=points("n_unlabelled", (5, 10, 20, 40), n_train=40, n_rows=500),
        axis="unlabelled rows a class in meta-training",
    ),
}


def axis_value(cell):
    """Position of a cell on its figure's axis: its `x`, or the value that `numbered` varied."""
    if cell.x is not None:
        return cell.x
    (value,) = cell.method.backbone_config.values()
    return value


#: The paper's means by table, method and number of labelled rows.
PAPER = {
    "1a": {
        "GP": (0.357, 0.379, 0.401),
        "LP": (0.361, 0.380, 0.396),
        "MAML": (0.441, 0.486, 0.502),
        "Proto": (0.461, 0.503, 0.510),
        "HML": (0.536, 0.660, 0.692),
        "AttHML": (0.661, 0.972, 0.991),
        "SemiProto": (0.662, 0.710, 0.731),
        "MetaLP": (0.344, 0.639, 0.761),
        "AttHMLLP": (0.345, 0.351, 0.804),
        "Ours": (0.974, 0.991, 0.992),
    },
    "1b": {
        "GP": (0.602, 0.644, 0.663),
        "LP": (0.587, 0.623, 0.635),
        "MAML": (0.547, 0.575, 0.583),
        "Proto": (0.548, 0.575, 0.584),
        "HML": (0.546, 0.582, 0.598),
        "AttHML": (0.581, 0.634, 0.659),
        "SemiProto": (0.607, 0.654, 0.671),
        "MetaLP": (0.604, 0.644, 0.660),
        "AttHMLLP": (0.527, 0.574, 0.586),
        "Ours": (0.647, 0.703, 0.715),
    },
    "2a": {
        "Ours": (0.974, 0.991, 0.992),
        "ExampleAttn": (0.481, 0.740, 0.852),
        "AttributeAttn": (0.985, 0.988, 0.994),
        "w/oObsInd": (0.780, 0.654, 0.893),
        "w/oAttLabInd": (0.934, 0.990, 0.992),
        "w/oRes": (0.342, 0.342, 0.342),
        "w/oLN": (0.358, 0.774, 0.937),
    },
    "2b": {
        "Ours": (0.647, 0.703, 0.715),
        "ExampleAttn": (0.601, 0.651, 0.680),
        "AttributeAttn": (0.609, 0.677, 0.710),
        "w/oObsInd": (0.617, 0.693, 0.706),
        "w/oAttLabInd": (0.638, 0.695, 0.713),
        "w/oRes": (0.472, 0.472, 0.472),
        "w/oLN": (0.611, 0.680, 0.706),
    },
    "4": {
        "GP": (0.899, 0.861, 0.834),
        "MAML": (0.992, 0.996, 0.957),
        "MetaGP": (0.989, 0.994, 0.961),
        "HML": (0.763, 0.715, 0.687),
        "AttHML": (0.665, 0.620, 0.581),
        "SemiMetaGP": (0.845, 0.787, 0.729),
        "Ours": (0.628, 0.600, 0.550),
    },
}

#: Table 3: hours of training on a GTX 1080Ti.
PAPER_HOURS = {
    "GP": 3.0,
    "LP": 2.3,
    "MAML": 18.6,
    "Proto": 2.0,
    "HML": 7.6,
    "AttHML": 50.0,
    "SemiProto": 3.1,
    "MetaLP": 4.5,
    "AttHMLLP": 34.4,
    "Ours": 9.9,
}

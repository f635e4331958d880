"""Arguments that commands share: lists, recipes, and collections by name."""

import json
import sys
import tomllib
from argparse import ArgumentTypeError
from typing import NamedTuple

from ..folders import expanded
from .printing import in_one_line

#: Arguments that leave tables out.
FILTERS = ("exclude", "n_columns", "n_classes", "n_rows", "min_class_size", "one_a_family")

COLLECTIONS = """\
collections:
  FOLDER                 tables in parquet, CSV or ARFF files; the last column is the target
  FOLDER#split=test      only those with this value in index.csv; also #split=test,task=regression
  openml:99              the tables of an OpenML suite, by number or alias
"""


def integers(text):
    """Type of an argument such as ``1,3,5``."""
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise ArgumentTypeError(f"whole numbers such as 1,3,5 are needed, got {text!r}") from None


def bounds(text):
    """Type of an argument such as ``2,10``: smallest and largest."""
    found = integers(text)
    if len(found) != 2 or found[0] > found[1]:
        raise ArgumentTypeError(f"smallest and largest such as 2,10 are needed, got {text!r}")
    return tuple(found)


def positive(text):
    """Type of a positive whole number."""
    number = int(text)
    if number < 1:
        raise ArgumentTypeError(f"a positive number is needed, got {number}")
    return number


def names(text):
    """Type of an argument such as ``iris,wine``, with spaces or without."""
    return [part.strip() for part in text.split(",")]


def given(text):
    """Type of a path or a name, which may not be empty: that would mean the current folder."""
    if not text:
        raise ArgumentTypeError("a name is needed, got '': is a shell variable not set?")
    return text


class Spec(NamedTuple):
    """A collection as named on the command line.

    Parameters
    ----------
    kind : {"prior", "openml", "folder"}
    place : str
        The folder or the suite.
    wanted : dict
        ``split`` and ``task`` of a folder.
    share : float, default=1.0
        Relative share of the tasks, in a mixture.
    """

    kind: str
    place: str
    wanted: dict
    share: float = 1.0

    @property
    def label(self):
        """The text without the share and without parent folders, which differ by machine."""
        place = {"openml": f"openml:{self.place}", "folder": expanded(self.place).resolve().name}
        wanted = ",".join(f"{key}={value}" for key, value in self.wanted.items())
        return place.get(self.kind, self.place) + (f"#{wanted}" if wanted else "")


def mixed_collection(text):
    """Type of a collection that tasks are drawn from: ``prior`` and shares are allowed."""
    head, at, tail = text.rpartition("@")
    if not at or expanded(text).is_dir():
        return _spec(text)
    try:
        share = float(tail)
    except ValueError:
        return _spec(text)
    if not 0 < share < float("inf"):
        raise ArgumentTypeError(f"a share must be a positive number, got {text!r}")
    return _spec(head)._replace(share=share)


def named_collection(text):
    """Type of a collection of named tables."""
    spec = _spec(text)
    if spec.kind == "prior":
        raise ArgumentTypeError(
            "prior is endless and its tables have no names: give a folder or openml:SUITE"
        )
    return spec


def _spec(text):
    if text == "prior":
        return Spec("prior", text, {})
    if text.startswith("openml:"):
        return Spec("openml", given(text.removeprefix("openml:")), {})
    if expanded(given(text)).is_dir():
        return Spec("folder", text, {})
    place, _, wanted = text.partition("#")
    pairs = [pair.partition("=") for pair in wanted.split(",")] if wanted else []
    for key, _, value in pairs:
        if key not in ("split", "task") or not value:
            raise ArgumentTypeError(f"expected split=NAME or task=NAME after #, got {text!r}")
    return Spec("folder", given(place), {key: value for key, _, value in pairs})


def add_collection_arguments(parser):
    """Add arguments that select tables of a collection, and those of OpenML."""
    add = parser.add_argument_group("tables taken").add_argument
    add("--exclude", type=names, default=[], metavar="NAME,...", help="names, families or ids")
    for what in ("columns", "classes", "rows"):
        add(f"--n-{what}", type=bounds, metavar="LOW,HIGH", help=f"least and most {what}")
    add("--min-class-size", type=positive, metavar="N", help="minimum number of rows per class")
    add("--one-a-family", action="store_true", help="first version of each table only")
    add_openml_arguments(parser)


def add_openml_arguments(parser):
    """Add arguments for requests to OpenML."""
    add = parser.add_argument_group("OpenML").add_argument
    add("--server", type=given, metavar="URL", help="URL of the REST interface")
    add("--cache-directory", type=given, metavar="FOLDER", help="cache of downloaded tables")
    add("--timeout", type=float, default=30.0, metavar="S", help="seconds of silence [%(default)s]")
    add("--n-retries", type=int, default=3, metavar="N", help="after a failure [%(default)s]")
    add("--offline", action="store_true", help="use the cache only, no network")


def open_openml(suite, args, tasks=None):
    """Open an OpenML collection; ``suite`` is a number or an alias."""
    from ..tasks.openml import OpenMLCollection

    return OpenMLCollection(
        int(suite) if isinstance(suite, str) and suite.isdecimal() else suite,
        tasks=tasks,
        server=args.server,
        cache_directory=args.cache_directory,
        timeout=args.timeout,
        n_retries=args.n_retries,
        offline=args.offline,
        progress=not args.quiet,
    )


def open_collection(spec, args, task="classification"):
    """Open the collection or source of a Spec: fetch it and filter its tables.

    Tables that are left out are reported on stderr. ``task`` decides which prior is meant.
    """
    from ..tasks import Folder, Mixture, MixturePrior, RegressionPrior, TablePrior, select
    from ..tasks.collections import Subset, family_of

    if spec.kind == "prior":
        if task == "mixture":
            return MixturePrior()
        if task == "outlier_detection":
            return Mixture([TablePrior(), RegressionPrior()])
        return TablePrior() if task.endswith("classification") else RegressionPrior()
    if spec.kind == "openml":
        fetched = open_openml(spec.place, args).fetch()
        collection = Subset(fetched, fetched)  # otherwise meta_fit would retry what failed
    else:
        collection = Folder(spec.place, **spec.wanted)
    filters = {key: getattr(args, key) for key in FILTERS if getattr(args, key)}
    if not filters:
        return collection
    chosen = select(collection, **filters)
    if args.exclude:
        known = {text for name in collection for text in (name, family_of(collection, name))}
        for name in args.exclude:
            if name not in known and not name.isdecimal():  # a number may be a dataset's id
                print(f"--exclude {name}: {spec.label} has nothing of that name", file=sys.stderr)
    for name, reason in chosen.rejected.items():
        print(f"left out: {in_one_line(f'{name}: {reason}')}", file=sys.stderr)
    if not len(chosen):
        raise ValueError(f"None of the {len(collection)} tables of {spec.label} fits.")
    return chosen


def read_recipe(path, parser):
    """Read settings of a command from a file: arguments by name, with ``_`` or ``-``.

    Parameters
    ----------
    path : path
        JSON, or TOML if it ends in ``.toml``.
    parser : argparse.ArgumentParser
        The command's parser. It exits with code 2 if a setting is unknown or wrong.

    Returns
    -------
    dict
        The settings as the parser returns them.

    Raises
    ------
    OSError
        If the file cannot be read.
    ValueError
        If it is not JSON or TOML, or not a table of settings.
    """
    path = expanded(path)
    try:
        text = path.read_text("utf-8-sig")
        settings = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"{path} is not valid JSON, or TOML if it ends in .toml: {error}."
        ) from error
    if not isinstance(settings, dict):
        raise ValueError(f"{path} must hold settings by name, got a {type(settings).__name__}.")
    settings = {key.replace("-", "_"): value for key, value in settings.items()}
    known = vars(parser.parse_args([])).keys() - {"recipe"}
    if unknown := settings.keys() - known:
        told = (f"--{key.replace('_', '-')}={settings[key]}" for key in sorted(unknown))
        parser.error(in_one_line(f"{path} has unknown settings: {' '.join(told)}"))
    flags, collections = [], []
    for key, value in settings.items():
        values = [_as_argument(item) for item in (value if isinstance(value, list) else [value])]
        if key == "collection":
            collections = values
        elif value is not False and value is not None and values:
            flag = f"--{key.replace('_', '-')}"
            if isinstance(value, list) and any("," in item for item in values):
                commas = f"{path}: an item of {key} holds a comma, which separates items: {value}"
                parser.error(in_one_line(commas))
            flags.append(flag if value is True else f"{flag}={','.join(values)}")
    # Flags last: a flag that is `true` but needs a value would take a collection as its value.
    parsed = parser.parse_args([*collections, *flags])
    return {key: value for key, value in vars(parsed).items() if key in settings}


def _as_argument(value):
    """Write a value of a recipe as on the command line; in JSON an integer may be 2.0."""
    whole = isinstance(value, float) and value.is_integer()
    return str(int(value) if whole else value)

"""Command-line arguments that several benchmarks share: folders of data, tables, counts, names."""

import argparse
import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

#: Environment variables that name the folders of data.
VARIABLES = {
    "tabular": "SKLEARN_META_DATA",
    "omniglot": "SKLEARN_META_OMNIGLOT",
    "text": "SKLEARN_META_TEXT",
}


def data_folder(kind):
    """Folder of one kind of data: the environment variable's, or one beside the project's root."""
    return Path(os.environ.get(VARIABLES[kind]) or ROOT / "../shared/data" / kind)


def add_folder(parser, option, kind, text):
    """Add an option for the folder of one kind of data."""
    parser.add_argument(option, type=Path, default=data_folder(kind), help=f"{text} [%(default)s]")


def check_tables(parser, folder):
    """End the command if the folder has no tables."""
    if not (folder / "index.csv").is_file():
        parser.error(f"no index.csv in {folder}: pass --folder or set {VARIABLES['tabular']}")


def add_only(parser, names):
    """Add an option for the tables and figures of a paper to run, by default all."""
    about = "tables and figures to run [all]"
    parser.add_argument("--only", nargs="+", choices=names, default=names, help=about)


def count(text):
    """Convert the value of an option to a positive int."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is not positive")
    return value


def check_names(parser, option, given, known):
    """End the command if a given name is unknown: it would compute nothing."""
    if unknown := [name for name in given or () if name not in known]:
        names = ", ".join(map(repr, dict.fromkeys(known)))
        parser.error(f"{option}: {unknown[0]!r} is none of {names or 'what is asked for'}")

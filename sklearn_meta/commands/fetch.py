"""Download OpenML tables into the cache.

Other commands then need no network for them. Run it before starting many processes, or on a
machine with network for machines without. Whatever cannot be fetched is reported on stderr.
"""

import json
import sys

from .arguments import add_openml_arguments, given, integers, open_openml
from .printing import in_one_line

SUMMARY = "download the tables of OpenML suites into the cache"

EXAMPLES = """\
examples:
  sklearn-meta fetch openml:99
  sklearn-meta fetch 99 OpenML-CC18 --cache-directory /data/openml
  sklearn-meta fetch --tasks 3,6,11
"""


def add_arguments(parser):
    """Add the arguments of the command."""
    suite = "number or alias, with or without openml:"
    parser.add_argument("suite", nargs="*", type=_suite, help=suite)
    parser.add_argument("--tasks", type=integers, metavar="ID,...", help="ids of single tasks")
    parser.add_argument("--refresh", action="store_true", help="request the suites' lists again")
    add_openml_arguments(parser)


def _suite(text):
    return given(text.removeprefix("openml:"))


def run(args):
    """Fetch tables, and print what was fetched."""
    if not args.suite and not args.tasks:
        args.parser.error("a suite or --tasks is needed")
    collections = {f"openml:{suite}": open_openml(suite, args) for suite in args.suite}
    if args.tasks:
        collections["tasks"] = open_openml(None, args, args.tasks)
    result = {}
    for name, collection in collections.items():
        try:
            collection.fetch(refresh=args.refresh)  # warns of each table that it skips
        except (OSError, ValueError) as error:  # try the other suites
            print(f"failed: {name}: {in_one_line(error)}", file=sys.stderr)
            continue
        result[name] = {
            "folder": str(collection.folder),
            "datasets": list(collection),
            "skipped": dict(collection.skipped_),
        }
    if args.json:
        print(json.dumps(result, indent=1))
    else:
        for name, found in result.items():
            skipped = f", {len(found['skipped'])} skipped" if found["skipped"] else ""
            print(f"{name}: {len(found['datasets'])} tables in {found['folder']}{skipped}")
    if empty := [name for name in collections if not result.get(name, {}).get("datasets")]:
        raise OSError(f"No table of {', '.join(empty)} could be fetched.")
    return 0

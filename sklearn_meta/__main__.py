"""The command line: ``python -m sklearn_meta COMMAND``, also installed as ``sklearn-meta``."""

import argparse
import os
import sys
import warnings
from contextlib import redirect_stderr, suppress

from . import __version__
from .commands import COMMANDS
from .commands.arguments import read_recipe
from .commands.printing import in_one_line

EPILOG = """\
exit codes: 0 success, 1 error (reported on stderr), 2 wrong arguments, 130 interrupted.
Results go to stdout, progress to stderr; sklearn-meta COMMAND --help has examples.
"""


def main(argv=None):
    """Run one command.

    Parameters
    ----------
    argv : list of str, default=None
        Arguments without the program's name; if None, those of the process.

    Returns
    -------
    int
        Exit code: 0 success, 1 error (reported in one line on stderr), 130 interrupted.

    Raises
    ------
    SystemExit
        With code 2 for wrong arguments, and 0 after ``--help`` and ``--version``.
    """
    if hasattr(sys.stdout, "reconfigure"):  # escape characters it cannot encode, as stderr does
        sys.stdout.reconfigure(errors="backslashreplace")
    parser = _parser()
    args = _parse(parser, argv)
    # If stderr is closed (None), print would write to stdout, which holds the result. Names of
    # files may hold what UTF-8 cannot encode.
    with (
        warnings.catch_warnings(),
        open(os.devnull, "w", encoding="utf-8", errors="replace") as nowhere,
        redirect_stderr(_Beside(sys.stderr or nowhere)),
    ):
        warnings.showwarning = _show_warning
        try:
            if getattr(args, "recipe", None) is not None:
                args.parser.set_defaults(**read_recipe(args.recipe, args.parser))
                args = _parse(parser, argv)  # again: arguments override the recipe
            code = args.run(args)
            if sys.stdout is not None:
                sys.stdout.flush()
            return code
        except BrokenPipeError:  # the reader of stdout has closed it
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 1
        except (ValueError, OSError, ImportError) as error:
            message = in_one_line(error) or type(error).__name__
            print(f"{args.parser.prog}: error: {message}", file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            print(f"{args.parser.prog}: interrupted", file=sys.stderr)
            return 130


def _parser():
    parser = argparse.ArgumentParser(
        prog="sklearn-meta",
        description="Meta-train and evaluate estimators, and show their weights.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, command in COMMANDS.items():
        added = commands.add_parser(
            name,
            help=command.SUMMARY,
            description=command.__doc__,
            epilog=command.EXAMPLES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        command.add_arguments(added)
        added.add_argument("--json", action="store_true", help="print the result as JSON")
        added.add_argument("--quiet", action="store_true", help="no progress bars")
        added.set_defaults(run=command.run, parser=added)
    return parser


def _parse(parser, argv):
    args, unknown = parser.parse_known_args(argv)
    if unknown:  # report them with the usage of the command, unlike argparse itself
        together = "" if any(word.startswith("-") for word in unknown) else "; put names together"
        args.parser.error(f"unrecognized arguments: {' '.join(unknown)}{together}")
    return args


def _show_warning(message, category, filename, lineno, file=None, line=None):
    print(f"warning: {in_one_line(message)}", file=sys.stderr, flush=True)


class _Beside:
    """Wrapper of stderr that ignores write errors: if nobody reads it, the command continues."""

    def __init__(self, stream):
        self._stream = stream

    def write(self, text):
        with suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self):
        with suppress(OSError):
            self._stream.flush()

    def __getattr__(self, name):
        return getattr(self._stream, name)


if __name__ == "__main__":
    sys.exit(main())

"""The commands of the command line, one module each.

A command has a ``SUMMARY``, ``EXAMPLES``, ``add_arguments(parser)`` and ``run(args)``, which
prints results to stdout, all else to stderr, and returns the exit code. What takes long to import
is imported by ``run``, so that help comes at once.
"""

from . import evaluate, fetch, info, meta_fit

COMMANDS = {"meta-fit": meta_fit, "evaluate": evaluate, "info": info, "fetch": fetch}

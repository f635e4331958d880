"""The commands of the command line, one module each.

A command has a ``SUMMARY``, ``EXAMPLES``, ``add_arguments(parser)`` and ``run(args)``. ``run``
prints results to stdout and everything else to stderr, and returns the exit code. It also does the
imports that take long, so that help appears at once.
"""

from . import evaluate, fetch, info, meta_fit

COMMANDS = {"meta-fit": meta_fit, "evaluate": evaluate, "info": info, "fetch": fetch}

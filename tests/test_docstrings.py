"""Docstrings name the parameters of signatures and their defaults; docs/api.md lists all names."""

import ast
import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import pytest

import sklearn_meta
from sklearn_meta.base import MetaEstimator

MODULES = [m.name for m in pkgutil.walk_packages(sklearn_meta.__path__, "sklearn_meta.")]
#: Headings of numpydoc that may follow the parameters.
SECTIONS = "Returns|Yields|Raises|Attributes|Notes|References|Examples|See Also"
#: Defaults described in words: names that fill lines, and an address.
IN_WORDS = ("all six", "all seven", "that of the authors' repository")


def functions(module):
    """Yield functions, classes and methods of a module with the docstring of their parameters."""
    for name, found in vars(module).items():
        if getattr(found, "__module__", None) != module.__name__:
            continue
        if inspect.isclass(found):
            yield name, found.__doc__, found
            for attribute, method in vars(found).items():
                method = getattr(method, "__func__", method)
                if inspect.isfunction(method):
                    yield f"{name}.{attribute}", method.__doc__, method
        elif inspect.isfunction(found):
            yield name, found.__doc__, found


def told_parameters(docstring):
    """Return, for each parameter in a docstring, what follows its name."""
    _, _, section = f"\n{inspect.cleandoc(docstring or '')}".partition("\nParameters\n---")
    section = re.split(rf"\n(?:{SECTIONS})\n-", section)[0]
    told = {}
    for names, kind in re.findall(r"^(\S[^\n:]*) : ([^\n]*)$", section, re.MULTILINE):
        names = [name.lstrip("*") for name in names.split(", ")]
        told |= zip(names, each_of(kind, len(names)), strict=True)
    return told


def each_of(kind, n_names):
    """Split " : int, default=5 and 1" of two parameters into one text for each."""
    kind, told, defaults = kind.partition("default=")
    if not told:
        return [kind] * n_names
    parts = re.split(r", (?![^()]*\))| and (?![^()]*\))", defaults) if n_names > 1 else [defaults]
    return [f"{kind}default={default}" for default in parts * (n_names if len(parts) == 1 else 1)]


def fault(kind, parameter):
    """Say what is wrong with the description of a parameter, or return None."""
    default, (_, told, value) = parameter.default, kind.partition("default=")
    if default is inspect.Parameter.empty:
        return "has no default" if told else None
    if not told:
        return None if default is None else f"the default {default!r} is not told"
    try:
        same = repr(ast.literal_eval(value)) == repr(default)
    except (ValueError, SyntaxError):  # such as torch.float32
        same = value == str(default) or value in IN_WORDS
    return None if same else f"the default is {default!r}"


def test_lists_of_names_and_defaults_are_read():
    assert told_parameters("""One line.

    Parameters
    ----------
    a, b : int, default=5 and 1
    c, d : (int, int), default=(1, 2) and (3, 4)
    e, f : float, default=0.5
        Not this one, default=3
    *g : str

    Returns
    -------
    h : int, default=9
    """) == {
        **{"a": "int, default=5", "b": "int, default=1"},
        **{"c": "(int, int), default=(1, 2)", "d": "(int, int), default=(3, 4)"},
        **{"e": "float, default=0.5", "f": "float, default=0.5", "g": "str"},
    }


@pytest.mark.parametrize(
    ("kind", "right"),
    [
        *[("default=1", True), ("default=2", False), ("default=1.0", False), ("int", False)],
        *[("default=1 or so", False), ("default=one", False)],
    ],
)
def test_a_wrong_default_is_a_fault(kind, right):
    (parameter,) = inspect.signature(lambda a=1: a).parameters.values()
    assert (fault(kind, parameter) is None) == right


@pytest.mark.parametrize("name", [name for name in MODULES if not name.endswith("__main__")])
def test_defaults_are_those_of_the_docstrings(name):
    faults = []
    for function, docstring, made in functions(importlib.import_module(name)):
        told = told_parameters(docstring)
        known = inspect.signature(made).parameters if told else {}
        faults += [f"{function}: {name!r} is no parameter" for name in told if name not in known]
        found = {name: fault(kind, known[name]) for name, kind in told.items() if name in known}
        faults += [f"{function}, {name!r}: {wrong}" for name, wrong in found.items() if wrong]
    assert faults == []


#: Names of parameters, and that all is said of them elsewhere.
SAME = re.compile(
    r"^(\S[^\n:]*)\n"
    r" +As (?:there|in :meth:`sklearn_meta.base.MetaEstimator.meta_fit`), with the same defaults",
    re.MULTILINE,
)


def test_defaults_that_are_said_to_be_those_of_the_base_are():
    base, compared = inspect.signature(MetaEstimator.meta_fit).parameters, set()
    for module in MODULES:
        if module.endswith("__main__"):
            continue
        for function, docstring, made in functions(importlib.import_module(module)):
            for names in SAME.findall(inspect.cleandoc(docstring or "")):
                own = inspect.signature(made).parameters
                for name in own.keys() & names.split(", "):
                    assert own[name].default == base[name].default, f"{function}, {name!r}"
                    compared.add((function, name))
    assert ("MANNRegressor.meta_fit", "max_steps") in compared and len(compared) > 10


def test_the_list_of_public_names_is_whole_and_says_what_they_say():
    text = (Path(__file__).parents[1] / "docs" / "api.md").read_text("utf-8")
    told = []
    for section in text.split("\n## ")[1:]:
        module = re.match(r".*: `([\w.]+)`\n", section)[1]
        told += [(module, *row) for row in re.findall(r"\| `(\w+)` \| (.*) \|", section)]
    for module, name, line in told:
        docstring = inspect.getdoc(getattr(importlib.import_module(module), name))
        first = re.sub(r":\w+:`~?([^`]*)`", r"`\1`", docstring.split("\n\n")[0])
        assert line == first.replace("``", "`").replace("\n", " "), name
    own = {module for module, *_ in told}
    for module in own.union(MODULES):
        found = importlib.import_module(module)
        public = {n for n in getattr(found, "__all__", ()) if not isinstance(vars(found)[n], dict)}
        # A re-exported name may be listed under the module where users import it from.
        assert public <= {name for m, name, _ in told if module not in own or m == module}, module

"""Meta-learned, fit-free estimators with the scikit-learn interface.

The public estimators are looked up on first use, so ``import sklearn_meta`` does not import torch.
Helper modules are named like scikit-learn's: :mod:`sklearn_meta.model_selection` and
:mod:`sklearn_meta.inspection`.

Modules cite five papers by number:

- paper 000: T. Iwata, A. Kumagai, 2023, variable-feature self-attention;
- paper 001: J. Lee et al., 2019, the Set Transformer;
- paper 002: A. Santoro et al., 2016, memory-augmented neural networks;
- paper 003: O. König, 2021, the Few-Shot Transformer;
- paper 004: J. Chen et al., 2018, Meta-LSTMs.
"""

from importlib import import_module

from .locks import ForkedLock

__version__ = "0.1.0"

# Public name -> the module that defines it.
_HOMES = {
    "MetaSemiSupervisedClassifier": "sklearn_meta.semi_supervised",
    "MetaGPRegressor": "sklearn_meta.gaussian_process",
    "AmortizedGMM": "sklearn_meta.mixture",
    "AmortizedOutlierDetector": "sklearn_meta.outliers",
    "FewShotTransformerClassifier": "sklearn_meta.few_shot",
    "MANNClassifier": "sklearn_meta.memory",
    "MANNRegressor": "sklearn_meta.memory",
    "MetaLSTMClassifier": "sklearn_meta.text",
    "MetaLSTMTagger": "sklearn_meta.text",
    "SetTransformerClassifier": "sklearn_meta.sets",
    "SetTransformerRegressor": "sklearn_meta.sets",
}

__all__ = list(_HOMES)

#: Held while a module is imported: torch breaks if two threads import parts of it at once, as the
#: first requests to a server may.
_IMPORTING = ForkedLock()


def __getattr__(name):
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with _IMPORTING:
        try:
            value = globals()[name] = getattr(import_module(_HOMES[name]), name)
        except AttributeError as error:  # from a library: Python would report ``name`` as unknown
            raise ImportError(
                f"{name} cannot be imported, because a library that it needs fails: {error}. The "
                "installed versions may not fit together: reinstall sklearn_meta."
            ) from error
    return value


def __dir__():
    return sorted({*globals(), *__all__})

"""Show weights (their cards, verified against the files), versions and the device."""

import json
import platform
from importlib.metadata import PackageNotFoundError, version

import sklearn_meta

from .printing import in_one_line

SUMMARY = "show cards of weights, versions and the device"

EXAMPLES = """\
examples:
  sklearn-meta info
  sklearn-meta info mine.safetensors --json
"""

_PACKAGES = ("torch", "scikit-learn", "skorch", "numpy", "joblib")
_OPTIONAL = (
    *("pandas", "pyarrow", "openml", "huggingface_hub", "accelerate", "conllu", "seqeval"),
    *("matplotlib", "pillow", "optuna"),
)


def add_arguments(parser):
    """Add the arguments of the command."""
    parser.add_argument("weights", nargs="*", help="names or files [all in the package]")


def run(args):
    """Print cards, versions and device."""
    from ..weights import available_weights, load_learner

    cards, n_parameters = {}, {}
    for name in args.weights or available_weights():
        learner = load_learner(name)
        cards[name] = learner.card | {"config": learner.config}
        n_parameters[name] = sum(parameter.numel() for parameter in learner.parameters())
    versions = {"sklearn_meta": sklearn_meta.__version__, "python": platform.python_version()}
    versions |= {package: _version(package) for package in (*_PACKAGES, *_OPTIONAL)}
    device = _device()
    if args.json:
        print(json.dumps({"weights": cards, "versions": versions, "device": device}, indent=1))
        return 0
    print(", ".join(f"{name} {found}" for name, found in versions.items() if found))
    if missing := [name for name in _OPTIONAL if versions[name] is None]:
        print(f"not installed: {', '.join(missing)}")
    print(", ".join(f"{name} {value}" for name, value in device.items()))
    for name, card in cards.items():
        print(f"\n{in_one_line(name)}: {n_parameters[name]:,} parameters")
        print(f"  sha256: {card['sha256']}, as the file's")
        config = card["config"]
        print(f"  architecture: {config['backbone']}, {config['head']}, for {config['task']}")
        for key, value in card.items():
            if key not in ("config", "n_parameters", "sha256"):
                print(f"  {in_one_line(key)}: {in_one_line(_as_text(value))}")
    return 0


def _version(package):
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _device():
    import torch

    from ..devices import gains_from_bfloat16, usable_device

    device = usable_device("auto")
    found = {"device": device, "threads": torch.get_num_threads()}
    if device == "cuda":
        found["name"] = torch.cuda.get_device_name()
    return found | {"bfloat16": gains_from_bfloat16(device)}


def _as_text(value):
    """Write a value of a card in one line; of a long list, only its length."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {_as_text(inner)}" for key, inner in value.items())
    if isinstance(value, list):
        if len(value) > 8:
            return f"({len(value)})"
        parts = [_as_text(inner) for inner in value]
        return ("; " if any(isinstance(inner, dict) for inner in value) else ",").join(parts)
    return str(value)

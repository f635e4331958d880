"""What processes.py forks from: it has imported all, without looking for garbage meanwhile."""

import gc
import importlib

gc.disable()
for name in ("torch._dynamo", "sklearn_meta.training"):  # optimisers import the first
    importlib.import_module(name)
gc.freeze()
gc.enable()

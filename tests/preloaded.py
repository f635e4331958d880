"""Preload the process that processes.py forks from, without garbage collection meanwhile."""

import gc
import importlib

gc.disable()
for name in ("torch._dynamo", "sklearn_meta.training"):  # optimisers import torch._dynamo
    importlib.import_module(name)
gc.freeze()
gc.enable()

"""The device a network runs on, and its precision."""

import copy
import weakref

import torch

from .fingerprint import weights_digest

#: Copies of each living module, by device and dtype. Each is stored with the digest of the weights
#: that were copied, or with None if these are not expected to change.
_PLACED = weakref.WeakKeyDictionary()


def usable_device(name):
    """Return the name of a torch device, if it can be used here.

    Parameters
    ----------
    name : str
        "auto" means a CUDA GPU if there is one, otherwise the CPU.

    Returns
    -------
    str

    Raises
    ------
    ValueError
        If the device cannot be used.
    """
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        # Cells are float64, which Apple's GPUs lack; "meta" tensors hold no data and fail in
        # ``tolist``. The tensor is empty, so this frequent check does not wait for a GPU.
        torch.empty(0, dtype=torch.float64, device=name).tolist()
    except (RuntimeError, AssertionError, NotImplementedError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(
            f"device={name!r} cannot be used here ({reason}): take 'auto', which is a CUDA GPU if "
            "torch sees one, and otherwise the CPU."
        ) from error
    return name


def placed(module, device, dtype, *, may_change):
    """Return a copy of a module on a device and in a dtype, for predictions; cached.

    Parameters
    ----------
    module : nn.Module
    device : str
    dtype : torch.dtype
    may_change : bool
        Whether a user may train the module further; then a changed module is copied again.

    Returns
    -------
    nn.Module
    """
    place, state = (device, dtype), weights_digest(module) if may_change else None
    copies = _PLACED.setdefault(module, {})
    if place not in copies or copies[place][0] != state:
        copies[place] = state, copy.deepcopy(module).to(*place).eval().requires_grad_(False)
    return copies[place][1]


def autocast(device, precision):
    """Context manager for a forward pass: bfloat16 if asked for, or if "auto" and the device gains.

    torch's cache of cast weights is off: it belongs to the whole process, so another thread that
    leaves an autocast empties it, and gradients are then rounded differently.
    """
    use = precision == "bfloat16" or (precision == "auto" and gains_from_bfloat16(device))
    kind = torch.device(device).type
    return torch.autocast(kind, torch.bfloat16, enabled=use, cache_enabled=False)


def gains_from_bfloat16(device):
    """Whether autocast to bfloat16 is faster than float32 on a device."""
    if torch.device(device).type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    supported = getattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)
    return torch.device(device).type == "cpu" and bool(supported())

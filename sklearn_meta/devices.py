"""Where a network runs, and in which precision."""

import copy
import weakref

import torch

from .fingerprint import weights_digest

#: Copies of each module that lives, by device and dtype, each beside the digest of the weights
#: that were copied; None where these are not expected to change.
_PLACED = weakref.WeakKeyDictionary()


def usable_device(name):
    """A torch device by its name, if it can be used.

    Parameters
    ----------
    name : str
        "auto" is the GPU if there is one.

    Returns
    -------
    str

    Raises
    ------
    ValueError
        If there is no such device.
    """
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        # Cells come in double precision, which Apple's GPUs do not have; "meta" holds no cell. It
        # is asked for often: of no element a GPU is not waited for.
        torch.empty(0, dtype=torch.float64, device=name).tolist()
    except (RuntimeError, AssertionError, NotImplementedError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(
            f"device={name!r} cannot be used here ({reason}): take 'auto', which is the GPU if "
            "torch sees one."
        ) from error
    return name


def placed(module, device, dtype, *, may_change):
    """A copy of a module on a device and in a dtype, for predictions, which is made once.

    Parameters
    ----------
    module : nn.Module
    device : str
    dtype : torch.dtype
    may_change : bool
        Whether somebody may train the module on, and the copy is to be made anew then.

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
    """Context of a forward pass: bfloat16 if asked for, or if "auto" and the device gains.

    Weights are cast wherever they are read. torch would keep the casts, but for the whole process:
    another thread that leaves an autocast empties its cache, and gradients are rounded otherwise.
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

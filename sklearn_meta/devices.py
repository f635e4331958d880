"""Where a network runs, and in which precision."""

import torch


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


def autocast(device, precision):
    """Context of a forward pass: bfloat16 if asked for, or if "auto" and the device gains."""
    use = precision == "bfloat16" or (precision == "auto" and gains_from_bfloat16(device))
    return torch.autocast(torch.device(device).type, torch.bfloat16, enabled=use)


def gains_from_bfloat16(device):
    """Whether autocast to bfloat16 is faster than float32 on a device."""
    if torch.device(device).type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    supported = getattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)
    return torch.device(device).type == "cpu" and bool(supported())

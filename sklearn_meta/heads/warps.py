"""Yeo and Johnson's functions of targets, for powers from 0 to 2, which have an inverse."""


def warp(y, power):
    """Yeo and Johnson's function of targets, for a power from 0 to 2."""
    return warps(y, [power])[0]


def warps(y, powers):
    """Warp the same targets by several powers; returns a list."""
    up, down = 1 + y.clamp(min=0), 1 - y.clamp(max=0)
    return [_box_cox(up, power) - _box_cox(down, 2 - power) for power in powers]


def unwarp(values, power):
    """Inverse of ``warp``."""
    up, down = values.clamp(min=0), -values.clamp(max=0)
    return _box_cox_inverse(up, power) - _box_cox_inverse(down, 2 - power)


def log_slope(y, power):
    """Logarithm of the derivative of ``warp``."""
    return (power - 1) * y.sign() * y.abs().log1p()


def _box_cox(values, power):
    """Box and Cox's function of values of 1 and more."""
    if power == 1:
        return values - 1  # the same to the bit
    return values.log() if power == 0 else (values**power - 1) / power


def _box_cox_inverse(values, power):
    """Inverse of ``_box_cox``, less 1, for values of 0 and more."""
    return values.expm1() if power == 0 else (1 + power * values) ** (1 / power) - 1

"""Yeo and Johnson's functions of targets, which have an inverse for powers from 0 to 2."""


def warp(y, power):
    """Yeo and Johnson's function of targets; its power is 0 to 2."""
    return warps(y, [power])[0]


def warps(y, powers):
    """The same targets warped by several powers, a list."""
    up, down = 1 + y.clamp(min=0), 1 - y.clamp(max=0)
    return [_box_cox(up, power) - _box_cox(down, 2 - power) for power in powers]


def unwarp(values, power):
    """The targets of which ``warp`` makes these values."""
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
    """Values of which ``_box_cox`` makes these, of 0 and more, less 1."""
    return values.expm1() if power == 0 else (1 + power * values) ** (1 / power) - 1

"""Likelihood ratios of calibrated certificates in plain loops: written for the reader, slow on purpose. Steps are from 0."""

from collections.abc import Mapping, Sequence

import numpy as np
from scipy.stats import binom, norm

from anyreward import kernels

from .calibrated_reference import START, Law, Reference, kl, lower_end, range_of, shifts

Corners = Sequence[Sequence[tuple[float, float]]]  # of each stage of a row: pairs (theta, f)
GRID = np.concatenate([np.linspace(0.0, 3.0, 3001), np.linspace(3.2, 20.0, 85)])


def normals(seed: int, number: int, many: int) -> list[float]:
    """The normal numbers of a draw, by Box and Muller from SplitMix64, and then one uniform number."""
    mix, mask = kernels.greedy.mix, 2**64 - 1
    with np.errstate(over="ignore"):
        word = int(mix(np.uint64((int(mix(np.uint64(seed))) + (number + 1) * 0x9E3779B97F4A7C15) & mask)))

    def uniform() -> float:
        nonlocal word
        word = (word + 0x9E3779B97F4A7C15) & mask
        return ((int(mix(np.uint64(word))) >> 11) + 0.5) * 2.0**-53

    out: list[float] = []
    while len(out) < many:
        radius, angle = np.sqrt(-2 * np.log(uniform())), 2 * np.pi * uniform()
        out += [radius * np.cos(angle), radius * np.sin(angle)]
    return [*out[:many], uniform()]


def stage_knowledge(N: Sequence[int], limit: float, brackets: Sequence[float]) -> list[tuple[float, float, float, list[float]]]:
    """For each stage of a row with counts N: the range of theta, the trials from which on shifts are valid, and the shifts."""
    m, left, out = sum(N), float(sum(N)), []
    for k in range(len(N) - 1):
        least = float(m if k == 0 else np.floor(m * lower_end(range_of(left / m, limit / m)[0], limit / m)))
        low, high = range_of(N[k] / left, limit / left) if left > 0 else (0.0, 1.0)
        out.append((low, high, least, shifts(N[k], left, least, limit, brackets)))
        left -= N[k]
    return out


def extents(z: float, shift: Sequence[float], brackets: Sequence[float], limit: float) -> tuple[float, float]:
    """How far the signed root of a deviance may be below and above 0."""
    valid = [s for s, x in zip(shift, brackets, strict=True) if abs(z) + s < np.sqrt(2 * min(x, limit))]
    s = min(valid, default=np.inf)
    above, below = np.sqrt(-2 * norm.logsf(z)), np.sqrt(-2 * norm.logcdf(z))
    return max(0.0, min(below, s - z)), max(0.0, min(above, s + z))


def copy_of(m: int, p: Sequence[float], z: Sequence[float]) -> list[int]:
    """Counts of m samples of p, each stage the quantile of its law at the level of its normal number."""
    left, tail, out = m, 1.0, []
    for q, number in zip(p[:-1], z, strict=True):
        out.append(int(binom.ppf(norm.cdf(number), left, min(1.0, q / tail))) if left else 0)
        left, tail = left - out[-1], tail - q
    return [*out, left]


def signed_root(y: int, m: int, q: float) -> float:
    return float(np.sign(y - m * q) * np.sqrt(2 * m * kl(y / m, q)))


def phi_by_ratios(slow: Reference, corners: Mapping[Law, Corners], g: Mapping[Law, float]) -> float:
    """The functional. Rows with corners are calibrated; others pay their total variation g, or all that is left.

    Rows that are never reached may have neither.
    """
    L, setting, H = GRID, slow.setting, slow.setting.horizon
    one, lost = int(np.argmin(np.abs(L - 1.0))), np.maximum(0.0, 1.0 - L)

    def at(values: np.ndarray, ratio: float) -> np.ndarray:
        return np.interp(L * ratio, L, values)

    def row(h: int, law: Law, values: Mapping[int, np.ndarray]) -> np.ndarray:
        outcomes = slow.outcomes(law)
        out: np.ndarray
        if law not in corners:
            out = slow.w[h] * g.get(law, 0.0) + np.sum([p * values[x] for x, p in slow.p(law).items()], axis=0)
            return np.full(len(L), slow.w[h]) if out[one] >= slow.w[h] else out
        out = values[outcomes[-1]]
        for j in range(len(outcomes) - 2, -1, -1):
            found = []
            for theta, f in corners[law][j]:
                value = np.zeros(len(L))
                if f > 0:
                    value = value + f * at(values[outcomes[j]], theta / f)
                if f < 1:
                    value = value + (1 - f) * at(out, (1 - theta) / (1 - f))
                found.append(value)
            out = np.max(found, axis=0)
        return out

    Y = dict.fromkeys(range(setting.n_outcomes), np.zeros(len(L)))
    for h in range(H, -1, -1):
        left = slow.w[h] if h < H else 0.0
        due = max(0.0, slow.w[h - 1] - left)  # what (1 - L)^+ is paid for on arrival at step h
        ahead, Y = Y, {}
        for s in range(setting.n_outcomes):
            if h == H or left == 0.0:
                Y[s] = due * lost
            elif slow.stays(s):
                Y[s] = (due + left) * lost
            elif slow.is_unknown(h, s):
                Y[s] = due * lost + left
            else:
                rows = [row(h, slow.law_at(h, s, a), ahead) for a in slow.actions(s)]
                Y[s] = np.max(rows, axis=0) + due * lost
    if not setting.estimates_start:
        return float(sum(p * Y[s][one] for s, p in zip(*setting.starts, strict=True)))
    return float(min(slow.w[-1], row(-1, START, Y)[one])) if START in slow.seen else slow.w[-1]

"""What the paper says about its experiments (section 6 and appendix A), and what the data of a reproduction say about that.

Every verdict follows from the tables by a rule that is part of the code. Comparisons of agents are tests over the paired runs, at
5% for all the comparisons of a claim together: `statistics.smaller` for means, and the bootstrap for ratios and slopes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from .statistics import smaller

PAPER = ("random policy", "generative model", "RF-UCRL", "BPI-UCRL")
LEVEL = 0.05
CLOSE = 2.5  # a factor between errors that are called close
EARLY = 5_000  # transitions from which on errors are compared: where the paper looks at the visits
SIDE = 21  # of the grid
GOAL = (16, 16)
WHERE = {"chain": "On the double chain", "grid": "On the grid"}
Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Claim:
    """What the paper says, and what the data say about it."""

    text: str
    measured: str
    observed: bool | None  # None if the data do not suffice to say
    about: str  # chain, grid or tau
    counts: str

    @property
    def verdict(self) -> str:
        return "not decided" if self.observed is None else "observed" if self.observed else "NOT OBSERVED"


def verdicts(tables: dict[str, Rows]) -> list[Claim]:
    """Each claim of the paper's section 6 and of its appendix A, for each way of counting."""
    claims: list[Claim] = []
    for counts in dict.fromkeys(row["counts"] for row in tables["errors"]):
        for name in WHERE:
            claims += error_claims(tables["errors"], name, counts)
            claims += visit_claims(visits_of(tables["visits"], name, counts), name, counts)
        claims += tau_claims(tables["tau"], counts)
    return claims


def errors_of(rows: Rows, name: str, counts: str, field: str = "error") -> tuple[list[int], dict[str, np.ndarray]]:
    """The looks at an environment and, for each agent, what was seen there, (runs, looks)."""
    mine = [row for row in rows if row["environment"] == name and row["counts"] == counts]
    looks = sorted({row["transitions"] for row in mine})
    found: dict[str, np.ndarray] = {}
    for agent in dict.fromkeys(row["agent"] for row in mine):
        of_agent = [row for row in mine if row["agent"] == agent]
        found[agent] = np.full((1 + max(row["run"] for row in of_agent), len(looks)), np.nan)
        for row in of_agent:
            found[agent][row["run"], looks.index(row["transitions"])] = np.nan if row[field] is None else row[field]
    return looks, found


def visits_of(rows: Rows, name: str, counts: str) -> dict[str, np.ndarray]:
    """The visits of each state, (runs, S), for each agent."""
    mine = [row for row in rows if row["environment"] == name and row["counts"] == counts]
    S = 1 + max(row["state"] for row in mine)
    found: dict[str, np.ndarray] = {}
    for agent in dict.fromkeys(row["agent"] for row in mine):
        of_agent = [row for row in mine if row["agent"] == agent]
        found[agent] = np.zeros((1 + max(row["run"] for row in of_agent), S))
        for row in of_agent:
            found[agent][row["run"], row["state"]] = row["visits"]
    return found


def taus_of(rows: Rows, agent: str, counts: str) -> dict[float, np.ndarray]:
    """For each epsilon / H that some run certified, the episodes this took, (runs,), nan in the runs that did not.

    An epsilon that is certain without any data says nothing and is left out.
    """
    mine = [row for row in rows if row["agent"] == agent and row["counts"] == counts]
    runs = 1 + max((row["run"] for row in mine), default=-1)
    found: dict[float, np.ndarray] = {}
    for row in mine:
        if row["tau"]:
            found.setdefault(row["epsilon"], np.full(runs, np.nan))[row["run"]] = row["tau"]
    return found


def bootstrapped(statistic: Callable[[np.ndarray], Any], runs: int, draws: int = 1_000) -> np.ndarray:
    """A statistic of the runs (by their numbers) over bootstrap samples of them, (draws, ...)."""
    samples = np.random.default_rng(0).integers(0, runs, (draws, runs))
    return np.array([statistic(sample) for sample in samples])


def between(values: np.ndarray) -> str:
    low, high = np.quantile(values, [LEVEL / 2, 1 - LEVEL / 2])
    return f"[{low:.3g}, {high:.3g}]"


def error_claims(rows: Rows, name: str, counts: str) -> Iterator[Claim]:
    looks, errors = errors_of(rows, name, counts)
    early = next(i for i, n in enumerate(looks) if n >= EARLY)
    last, span = looks[-1], f"from n = {looks[early]:,} to {looks[-1]:,}"
    of_paper = np.stack([errors[agent] for agent in PAPER])
    runs = of_paper.shape[1]

    def falls(sample: np.ndarray) -> np.ndarray:
        means = of_paper[:, sample].mean(axis=1)
        return means[:, early] / means[:, -1]

    fall, drawn = falls(np.arange(runs)), bootstrapped(falls, runs)
    not_fastest = float((drawn[:, :3].max(axis=1) >= drawn[:, 3]).mean())
    told = ", ".join(f"{agent} {fall[i]:.3g} {between(drawn[:, i])}" for i, agent in enumerate(PAPER))
    yield Claim(
        f"{WHERE[name]}, the error decays the fastest under BPI-UCRL.",
        f"{span} the mean error falls by a factor of: {told}; BPI-UCRL is not the fastest in {not_fastest:.1%} of the bootstrap",
        bool(fall.argmax() == 3 and not_fastest <= LEVEL),
        name,
        counts,
    )
    if runs > 1:
        p = smaller(of_paper[:, :, -1])
        means = of_paper[:, :, -1].mean(axis=1)
        told = ", ".join(f"{agent} {means[i]:.3g}" for i, agent in enumerate(PAPER))
        versus = ", ".join(f"{agent} {p[3, i]:.2g}" for i, agent in enumerate(PAPER[:3]))
        yield Claim(
            f"{WHERE[name]}, BPI-UCRL ends with the smallest error.",
            f"mean errors at n = {last:,}: {told}; that BPI-UCRL's is smaller, adjusted p of the permutation test: {versus}",
            bool((p[3, :3] <= LEVEL).all()),
            name,
            counts,
        )

    def ratio(sample: np.ndarray) -> float:
        means = of_paper[:, sample][:, :, early:].mean(axis=1)
        return float(np.exp(np.log(means[2] / means[1]).mean()))

    close = ratio(np.arange(runs))
    yield Claim(
        f"{WHERE[name]}, RF-UCRL is close to the agent with a generative model.",
        f"{span} its mean error is {close:.2f} times as large {between(bootstrapped(ratio, runs))}; close: a factor of {CLOSE}",
        1 / CLOSE <= close <= CLOSE,
        name,
        counts,
    )
    clipped = errors["RF-UCRL, clipped"]
    if len(clipped) > 1:
        both = np.stack([errors["RF-UCRL"][: len(clipped)], clipped])[:, :, early:].mean(axis=2)
        p = smaller(both)
        told = " and ".join(f"{mean:.3g}" for mean in both.mean(axis=1))
        yield Claim(
            f"{WHERE[name]}, RF-UCRL does better without the minimum in its index (without clipping).",
            f"mean errors {span}: {told} with it, {len(clipped)} runs; permutation test p = {p[0, 1]:.2g}",
            bool(p[0, 1] <= LEVEL),
            name,
            counts,
        )
    _, bounds = errors_of(rows, name, counts, "bound")
    wrong = int((errors["RF-UCRL"] > bounds["RF-UCRL"]).any(axis=1).sum())
    yield Claim(
        f"{WHERE[name]}, RF-UCRL's index without the minimum is still an upper bound on the error.",
        f"the error is above it at some n in {wrong} of {runs} runs; at the end the bound is "
        f"{(bounds['RF-UCRL'][:, -1] / errors['RF-UCRL'][:, -1].clip(1e-300)).min():,.0f} times the error or more",
        wrong <= 0.1 * runs,  # delta
        name,
        counts,
    )


def visit_claims(visits: dict[str, np.ndarray], name: str, counts: str) -> Iterator[Claim]:
    """What the paper says of where the agents have been."""
    S = visits["RF-UCRL"].shape[1]
    rows, cols = np.divmod(np.arange(S), SIDE)
    if name == "chain":
        ends = np.isin(np.arange(S), [0, 1, 2, S - 3, S - 2, S - 1])
        near, mirrored = np.arange(S) > S // 2, [np.arange(S) < S // 2]
        border, side = "borders of the chain", "on the side of the reward and on the other"
    else:
        ends = (rows % (SIDE - 1) == 0) | (cols % (SIDE - 1) == 0)

        def around(r: int, c: int) -> np.ndarray:
            return abs(rows - r) + abs(cols - c) <= 4

        near, mirrored = around(*GOAL), [around(r, c) for r, c in ((16, 4), (4, 16), (4, 4))]
        border, side = "walls of the grid", "within 4 steps of the reward and of its mirror images"

    def share(agent: str) -> float:
        return float(visits[agent][:, ends].sum() / visits[agent].sum())

    rp, rf = share("random policy"), share("RF-UCRL")
    yield Claim(
        f"{WHERE[name]}, the random policy does not reach the {border}.",
        f"share of its visits there: {rp:.2%}; of RF-UCRL's: {rf:.2%}",
        rp < 0.01,
        name,
        counts,
    )
    even = visits["generative model"].mean(axis=0)
    yield Claim(
        f"{WHERE[name]}, the generative model distributes its visits uniformly.",
        f"mean visits of a state from {even.min():.1f} to {even.max():.1f}",
        bool(even.max() <= 1.3 * even.min() + 5),
        name,
        counts,
    )
    runs = len(visits["RF-UCRL"])
    spread = np.stack([evenness(visits[agent]) for agent in ("RF-UCRL", "random policy")])
    p = float(smaller(-spread)[0, 1]) if runs > 1 else 1.0
    covered = (visits["RF-UCRL"] > 0).sum(axis=1)
    yield Claim(
        f"{WHERE[name]}, RF-UCRL seeks the states that were less visited.",
        f"its visits are spread as evenly as over {spread[0].mean():.1f} states, the random policy's as over "
        f"{spread[1].mean():.1f}; permutation test p = {p:.2g}",
        p <= LEVEL,
        name,
        counts,
    )
    if name == "chain":
        yield Claim(
            f"{WHERE[name]}, RF-UCRL manages to explore it fully.",
            f"states visited: {covered.min()} to {covered.max()} of {S}; the least visited one on average "
            f"{visits['RF-UCRL'].mean(axis=0).min():.1f} times",
            bool((covered == S).all()),
            name,
            counts,
        )

    def there_and_elsewhere(agent: str) -> np.ndarray:
        elsewhere = np.mean([visits[agent][:, part].sum(axis=1) for part in mirrored], axis=0)
        return np.stack([visits[agent][:, near].sum(axis=1), elsewhere])

    here, there = there_and_elsewhere("BPI-UCRL")
    p = float(smaller(np.stack([there, here]))[0, 1]) if runs > 1 else 1.0
    told = there_and_elsewhere("BPI-UCRL, tight, K known").mean(axis=1)
    yield Claim(
        f"{WHERE[name]}, BPI-UCRL focuses on the part with the highest reward.",
        f"its visits {side}: {here.mean():,.0f} and {there.mean():,.0f}; permutation test p = {p:.2g}; "
        f"with tight radii and the number of successors known: {told[0]:,.0f} and {told[1]:,.0f}",
        bool(here.mean() > 1.2 * there.mean() and p <= LEVEL),
        name,
        counts,
    )


def evenness(visits: np.ndarray) -> np.ndarray:
    """exp(entropy) of the visits of each run, (runs, S): the number of states over which as even visits would be as spread."""
    shares = visits / visits.sum(axis=1, keepdims=True)
    return np.exp(-(shares * np.log(np.where(shares > 0, shares, 1.0))).sum(axis=1))


def tau_claims(rows: Rows, counts: str) -> Iterator[Claim]:
    found = {agent: taus_of(rows, agent, counts) for agent in ("RF-UCRL", "BPI-UCRL")}
    means = {agent: {level: float(np.nanmean(taus)) for level, taus in of.items()} for agent, of in found.items()}
    both = sorted(set(found["RF-UCRL"]) & set(found["BPI-UCRL"]))
    text = "BPI-UCRL has a much smaller sample complexity than RF-UCRL."
    if both:
        least, most = both[0], both[-1]
        ratios = [means["RF-UCRL"][level] / means["BPI-UCRL"][level] for level in both]
        yield Claim(
            text,
            f"episodes of RF-UCRL over those of BPI-UCRL: {ratios[0]:.1f} at epsilon = {least:g} H "
            f"({means['RF-UCRL'][least]:,.0f} and {means['BPI-UCRL'][least]:,.0f}), {ratios[-1]:.1f} at {most:g} H",
            min(ratios) > 2,
            "tau",
            counts,
        )
    else:
        yield Claim(text, "no epsilon was certified by both within the budgets", None, "tau", counts)
    for agent, taus in found.items():
        text = f"The sample complexity of {agent} grows like 1/epsilon^2, but for logarithms (the theorems)."
        levels = [level for level in sorted(taus) if not np.isnan(taus[level]).any()][:6]
        smallest = f"; smallest epsilon certified by a run: {min(taus):g} H" if taus else ""
        if len(levels) < 3:
            yield Claim(text, f"{len(levels)} values of epsilon were certified by all runs{smallest}", None, "tau", counts)
            continue
        all_runs = np.stack([taus[level] for level in levels])

        def slope(sample: np.ndarray, levels: list[float] = levels, values: np.ndarray = all_runs) -> float:
            return float(np.polyfit(np.log(levels), np.log(values[:, sample].mean(axis=1)), 1)[0])

        runs = all_runs.shape[1]
        seen = slope(np.arange(runs))
        yield Claim(
            text,
            f"slope of log tau over log epsilon for epsilon from {levels[0]:g} to {levels[-1]:g} H: {seen:.2f} "
            f"{between(bootstrapped(slope, runs))}{smallest}",
            -2.5 <= seen <= -1.5,
            "tau",
            counts,
        )


def predicted(counts: str) -> dict[str, float]:
    """The exponents of the paper's bounds on tau, S^2 A H^3 log(1/delta) / epsilon^2 for pooled counts and H^4 by step."""
    return {"S": 2.0, "A": 1.0, "H": 3.0 if counts == "pooled" else 4.0, "epsilon": -2.0, "log(1/delta)": 1.0}


def exponents(rows: Rows, counts: str) -> list[tuple[str, float, float]]:
    """For each parameter, the exponent of tau that was measured over its two last values, and the predicted one."""
    found = []
    for parameter, power in predicted(counts).items():
        x, means = scaling_of(rows, counts, parameter)
        found.append((parameter, float(np.log(means[-1] / means[-2]) / np.log(x[-1] / x[-2])), power))
    return found


def scaling_of(rows: Rows, counts: str, parameter: str) -> tuple[np.ndarray, np.ndarray]:
    """The values of a parameter, in the unit of its name, and the mean tau at each."""
    mine = [row for row in rows if row["counts"] == counts and row["parameter"] == parameter and row["episodes"] is not None]
    values = list(dict.fromkeys(row["value"] for row in mine))
    x = np.array([np.log(1 / value) if parameter.startswith("log") else value for value in values])
    return x, np.array([np.mean([row["episodes"] for row in mine if row["value"] == value]) for value in values])

"""The claims of the paper about its experiments (section 6 and appendix A), each with a verdict from the data of a reproduction.

Every verdict follows from the tables by a fixed rule, which is stated here and in the report. Which agent has the smaller error
or more visits is decided by a permutation test over the paired runs, at the level 5% for all comparisons of a claim together
(`statistics.permutation_test`). Whose error falls faster is decided by the bootstrap. If there are too few runs for a test to
decide, there is no verdict.

`Rows` are the rows of a table, as dictionaries from column names to values; `reproduce.COLUMNS` lists the columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from .statistics import permutation_test

PAPER = ("random policy", "generative model", "RF-UCRL", "BPI-UCRL")
CLIPPED, BARE, KNOWN = "RF-UCRL, clipped", "BPI-UCRL, log(1/δ)", "BPI-UCRL, tight, K known"
LEVEL = 0.05
CLOSE = 2.5  # errors are called close if their ratio is at most this
EARLY = 5_000  # errors are compared from this many transitions on: the number at which the paper shows the visits
SIDE = 21  # rows and columns of the grid
GOAL = (16, 16)  # row and column of the reward
SOURCES, BEYOND = {"chain": "section 6", "grid": "appendix A"}, "beyond"
WHERE = {"chain": "On the double chain", "grid": "On the grid"}
Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, with what was measured and whether the data agree."""

    text: str
    measured: str  # the numbers behind the verdict
    observed: bool | None  # None if there are too few data for a verdict
    about: str  # chain, grid or tau
    counts: str  # "by step" or "pooled"
    source: str = "section 6"  # where the paper says so; `BEYOND` if it does not

    @property
    def verdict(self) -> str:
        """observed, NOT OBSERVED or not decided."""
        return "not decided" if self.observed is None else "observed" if self.observed else "NOT OBSERVED"


def verdicts(tables: dict[str, Rows]) -> list[Claim]:
    """Every claim of the paper's section 6 and appendix A with its verdict, for each way of counting in the tables.

    Parameters
    ----------
    tables
        The tables "errors", "visits" and "tau" of a reproduction.
    """
    claims: list[Claim] = []
    for counts in sorted({row["counts"] for row in tables["errors"]}):
        for name in WHERE:
            claims += error_claims(tables["errors"], name, counts)
            claims += visit_claims(visits_of(tables["visits"], name, counts), name, counts)
        claims += tau_claims(tables["tau"], counts)
    return claims


def errors_of(rows: Rows, name: str, counts: str, field: str = "error") -> tuple[list[int], dict[str, np.ndarray]]:
    """The numbers of transitions at which an environment's errors were measured, and each agent's errors, (runs, looks).

    Parameters
    ----------
    rows
        The table "errors".
    name
        The environment, "chain" or "grid".
    counts
        "by step" or "pooled".
    field
        The column to take: "error", or "bound" for the agent's own bound on it (nan where it has none).
    """
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
    """For each agent, how often each run visited each state, (runs, S), from the table "visits"."""
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
    """For each epsilon / H that some run certified, the episodes this took, (runs,), and nan for runs that did not certify it.

    An epsilon that is certified without any data is left out.
    """
    mine = [row for row in rows if row["agent"] == agent and row["counts"] == counts]
    runs = 1 + max((row["run"] for row in mine), default=-1)
    found: dict[float, np.ndarray] = {}
    for row in mine:
        if row["tau"]:
            found.setdefault(row["epsilon"], np.full(runs, np.nan))[row["run"]] = row["tau"]
    return found


def bootstrapped(statistic: Callable[[np.ndarray], Any], runs: int, draws: int = 1_000) -> np.ndarray:
    """The values of a statistic over bootstrap samples of the runs, (draws, ...). It is called with the indices of the runs."""
    samples = np.random.default_rng(0).integers(0, runs, (draws, runs))
    return np.array([statistic(sample) for sample in samples])


def percentile_interval(values: np.ndarray) -> str:
    """The 95% percentile interval of bootstrap values, as text."""
    low, high = np.quantile(values, [LEVEL / 2, 1 - LEVEL / 2])
    return f"[{low:.3g}, {high:.3g}]"


def is_significant(p: float, runs: int) -> bool | None:
    """Whether a p-value of a permutation test is significant; None if there are too few runs to find any difference."""
    return bool(p <= LEVEL) if 2.0**-runs <= LEVEL / 4 else None


def bpi_errors(errors: dict[str, np.ndarray], looks: list[int], name: str, counts: str, agent: str) -> Iterator[Claim]:
    """Two claims about the error of BPI-UCRL, with the paper's threshold or another one: it decays fastest, and it is smallest.

    "Decays fastest" is taken literally, as the factor by which the mean error falls. An error that stays large for a long time
    may then fall fast, which is why "smallest" is tested as well.
    """
    early, runs = first_compared(looks), len(errors[agent])
    four = np.stack([errors[other][:runs] for other in (*PAPER[:3], agent)])
    means, span = four.mean(axis=1), f"from n = {looks[early]:,} to {looks[-1]:,}"

    def falls(sample: np.ndarray) -> np.ndarray:
        sampled = four[:, sample].mean(axis=1)
        return sampled[:, early] / sampled[:, -1]

    fall, drawn = falls(np.arange(runs)), bootstrapped(falls, runs)
    not_fastest = float((drawn[:, :3].max(axis=1) >= drawn[:, 3]).mean())
    told = ", ".join(
        f"{other} {means[i, early]:.3g} → {means[i, -1]:.3g}, by {fall[i]:.3g} {percentile_interval(drawn[:, i])}"
        for i, other in enumerate((*PAPER[:3], agent))
    )
    yield Claim(
        f"{WHERE[name]}, the error decays the fastest under {agent}.",
        f"mean errors {span}: {told}; the last one does not fall by the largest factor in {not_fastest:.1%} of the bootstrap",
        bool(fall.argmax() == 3 and not_fastest <= LEVEL) if is_significant(0.0, runs) else None,
        name,
        counts,
        SOURCES[name] if agent != BARE else BEYOND,
    )
    along = four[:, :, early:].mean(axis=2)
    p = permutation_test(along) if runs > 1 else np.ones((4, 4))
    versus = ", ".join(f"{other} {along[i].mean():.3g} (p = {p[3, i]:.2g})" for i, other in enumerate(PAPER[:3]))
    yield Claim(
        f"{WHERE[name]}, {agent} has the smallest error.",
        f"mean of the looks {span}: {along[3].mean():.3g}; {versus}, adjusted p of the permutation test that its is smaller",
        is_significant(float(p[3, :3].max()), runs),
        name,
        counts,
        {"chain": "figure 2", "grid": "figure 3"}[name] if agent != BARE else BEYOND,
    )


def first_compared(looks: list[int]) -> int:
    """The index of the first measurement that counts in comparisons."""
    return next(i for i, n in enumerate(looks) if n >= EARLY)


def error_claims(rows: Rows, name: str, counts: str) -> Iterator[Claim]:
    """The claims about the errors of the agents in one environment."""
    looks, errors = errors_of(rows, name, counts)
    for agent in ("BPI-UCRL", BARE):
        yield from bpi_errors(errors, looks, name, counts, agent)
    early, where, runs = first_compared(looks), SOURCES[name], len(errors["RF-UCRL"])
    span = f"from n = {looks[early]:,} to {looks[-1]:,}"
    ratios = (errors["RF-UCRL"].mean(axis=0) / errors["generative model"].mean(axis=0))[early:]
    yield Claim(
        f"{WHERE[name]}, RF-UCRL is close to the agent with a generative model.",
        f"{span} its mean error is {ratios.min():.2f} to {ratios.max():.2f} times as large; close: at most {CLOSE} everywhere",
        bool(ratios.max() <= CLOSE),
        name,
        counts,
        where,
    )
    clipped = errors[CLIPPED]
    both = np.stack([errors["RF-UCRL"][: len(clipped)], clipped])[:, :, early:].mean(axis=2)
    p_clip = float(permutation_test(both)[0, 1]) if len(clipped) > 1 else 1.0
    told = " and ".join(f"{mean:.3g}" for mean in both.mean(axis=1))
    yield Claim(
        f"{WHERE[name]}, RF-UCRL does better without the minimum in its index (without clipping).",
        f"mean error {span}: {told} with it; permutation test p = {p_clip:.2g}",
        is_significant(p_clip, len(clipped)),
        name,
        counts,
        where,
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
        where,
    )


def visit_claims(visits: dict[str, np.ndarray], name: str, counts: str) -> Iterator[Claim]:
    """The claims about which states the agents visit. `visits` has an array (runs, S) for each agent."""
    where = SOURCES[name]
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
        where,
    )
    even = visits["generative model"].mean(axis=0)
    yield Claim(
        f"{WHERE[name]}, the generative model distributes its visits uniformly.",
        f"mean visits of a state from {even.min():.1f} to {even.max():.1f}",
        bool(even.max() <= 1.3 * even.min() + 5),
        name,
        counts,
        where,
    )
    runs = len(visits["RF-UCRL"])
    spread = np.stack([evenness(visits[agent]) for agent in ("RF-UCRL", "random policy")])
    p = float(permutation_test(-spread)[0, 1]) if runs > 1 else 1.0
    covered = (visits["RF-UCRL"] > 0).sum(axis=1)
    yield Claim(
        f"{WHERE[name]}, RF-UCRL seeks the states that were less visited.",
        f"its visits are spread as evenly as over {spread[0].mean():.1f} states, the random policy's as over "
        f"{spread[1].mean():.1f}; permutation test p = {p:.2g}",
        is_significant(p, runs),
        name,
        counts,
        where,
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

    for agent in ("BPI-UCRL", BARE, KNOWN):
        here, there = there_and_elsewhere(agent)
        p = float(permutation_test(np.stack([there, here]))[0, 1]) if len(here) > 1 else 1.0
        yield Claim(
            f"{WHERE[name]}, {agent} focuses on the part with the highest reward.",
            f"its visits {side}: {here.mean():,.0f} and {there.mean():,.0f}; permutation test p = {p:.2g}; asked for: 20% more",
            None if is_significant(p, len(here)) is None else bool(here.mean() > 1.2 * there.mean() and p <= LEVEL),
            name,
            counts,
            where if agent == "BPI-UCRL" else BEYOND,
        )


def evenness(visits: np.ndarray) -> np.ndarray:
    """The effective number of visited states in each run, (runs,): exp(entropy) of its visits, (runs, S).

    It is S if all states are visited equally often, and 1 if all visits are to one state.
    """
    shares = visits / visits.sum(axis=1, keepdims=True)
    return np.exp(-(shares * np.log(np.where(shares > 0, shares, 1.0))).sum(axis=1))


def tau_claims(rows: Rows, counts: str) -> Iterator[Claim]:
    """The claims about the number of episodes tau until epsilon is certified, from the table "tau"."""
    found = {agent: taus_of(rows, agent, counts) for agent in ("RF-UCRL", "BPI-UCRL")}
    end = max((row["episodes"] for row in rows if row["agent"] == "RF-UCRL" and row["counts"] == counts), default=0)
    # For each epsilon that all runs of BPI-UCRL certified: both mean taus, and whether RF-UCRL's is only a lower bound of its
    # mean.
    compared = {}
    for level, bpi in sorted(found["BPI-UCRL"].items()):
        rf = found["RF-UCRL"].get(level, np.full(1, np.nan))
        if not np.isnan(bpi).any():
            compared[level] = float(np.where(np.isnan(rf), end, rf).mean()), float(bpi.mean()), bool(np.isnan(rf).any())
    text = "BPI-UCRL has a much smaller sample complexity than RF-UCRL."
    if compared:
        told = ", ".join(
            f"{level:g} H: {'more than ' if more else ''}{many:,.0f} and {few:,.0f}"
            for level, (many, few, more) in compared.items()
        )
        yield Claim(
            text,
            f"mean episodes of RF-UCRL and of BPI-UCRL to epsilon = {told}; much smaller: by more than 2 at each",
            all(many > 2 * few for many, few, _ in compared.values()),
            "tau",
            counts,
        )
    else:
        yield Claim(text, "BPI-UCRL certified no epsilon in all of its runs", None, "tau", counts)
    for agent, taus in found.items():
        text = f"The sample complexity of {agent} grows like 1/epsilon^2, but for logarithms."
        levels = [level for level in sorted(taus) if not np.isnan(taus[level]).any()][:6]
        smallest = f"; smallest epsilon certified by a run: {min(taus):g} H" if taus else ""
        if len(levels) < 3:
            yield Claim(
                text, f"{len(levels)} values of epsilon were certified by all runs{smallest}", None, "tau", counts, "theorems"
            )
            continue
        all_runs = np.stack([taus[level] for level in levels])

        def slope(sample: np.ndarray, levels: list[float] = levels, values: np.ndarray = all_runs) -> float:
            return float(np.polyfit(np.log(levels), np.log(values[:, sample].mean(axis=1)), 1)[0])

        runs = all_runs.shape[1]
        seen = slope(np.arange(runs))
        yield Claim(
            text,
            f"slope of log tau over log epsilon for epsilon from {levels[0]:g} to {levels[-1]:g} H: {seen:.2f} "
            f"{percentile_interval(bootstrapped(slope, runs)) if runs > 4 else ''}{smallest}",
            -2.5 <= seen <= -1.5,
            "tau",
            counts,
            "theorems",
        )


def predicted(counts: str) -> dict[str, float]:
    """The exponents in the paper's bounds on tau, S^2 A H^3 log(1/delta) / epsilon^2 for pooled counts, and H^4 by step.

    The exponent of S holds for small epsilon, that of log(1/delta) for small delta: not both at once.
    """
    return {"S": 2.0, "A": 1.0, "H": 3.0 if counts == "pooled" else 4.0, "epsilon": -2.0, "log(1/delta)": 1.0}


def exponents(rows: Rows, counts: str) -> list[tuple[str, float, float, float]]:
    """For each parameter, the exponent with which tau grows between its last two values.

    Returns tuples of the parameter's name, the measured exponent, that of the theorem's bound, and the asymptotic one.
    """
    found = []
    for parameter, power in predicted(counts).items():
        x, means, bounds = scaling_of(rows, counts, parameter)
        step = np.log(x[-1] / x[-2])
        found.append(
            (parameter, float(np.log(means[-1] / means[-2]) / step), float(np.log(bounds[-1] / bounds[-2]) / step), power)
        )
    return found


def scaling_of(rows: Rows, counts: str, parameter: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The values of a parameter (log(1/delta) for delta), the mean tau at each, and the theorem's bound at each."""
    mine = [row for row in rows if row["counts"] == counts and row["parameter"] == parameter and row["episodes"] is not None]
    values = list(dict.fromkeys(row["value"] for row in mine))
    x = np.array([np.log(1 / value) if parameter.startswith("log") else value for value in values])
    means = [np.mean([row["episodes"] for row in mine if row["value"] == value]) for value in values]
    return x, np.array(means), np.array([next(row["bound"] for row in mine if row["value"] == value) for value in values])

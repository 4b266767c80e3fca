"""Verdicts follow from the data: made-up runs in which each claim is true, and in which it is false."""

import numpy as np
import pytest

from anyreward.experiments import claims

LOOKS = [1_000, 5_000, 20_000, 100_000]
AGENTS = (*claims.PAPER, claims.CLIPPED, claims.BARE)


def errors(levels, runs=12, bound=10.0):
    """Rows of runs with these errors at n = 5,000 and at the end, (agent: (early, late)), and 5% of noise."""
    rng, rows = np.random.default_rng(0), []
    for agent in AGENTS:
        early, late = levels[agent]
        slope = np.log(late / early) / np.log(LOOKS[-1] / LOOKS[1])
        for run in range(runs):
            for n in LOOKS:
                error = float(early * (n / LOOKS[1]) ** slope * np.exp(0.05 * rng.normal()))
                row = {"environment": "chain", "counts": "pooled", "agent": agent, "run": run, "transitions": n}
                rows.append({**row, "error": error, "bound": bound if "RF" in agent else None})
    return rows


AS_IN_THE_PAPER = {
    "random policy": (1.9, 1.5),
    "generative model": (0.2, 0.04),
    "RF-UCRL": (0.25, 0.05),
    "BPI-UCRL": (0.15, 0.005),
    "RF-UCRL, clipped": (0.5, 0.1),
    "BPI-UCRL, log(1/δ)": (0.15, 0.005),
}


def verdict_on(found, word):
    return next(claim for claim in found if word in claim.text).observed


def test_errors_as_in_the_paper_are_seen():
    found = list(claims.error_claims(errors(AS_IN_THE_PAPER), "chain", "pooled"))
    assert all(claim.observed for claim in found)
    assert len(found) == 7


@pytest.mark.parametrize(
    ("word", "changes"),
    [
        ("fastest", {"BPI-UCRL": (0.05, 0.01)}),
        ("fastest", {"BPI-UCRL": (0.4, 0.08)}),
        ("smallest", {"BPI-UCRL": (0.6, 0.01)}),  # falls late, and fast
        ("smallest", {"generative model": (0.1, 0.005)}),
        ("close", {"RF-UCRL": (0.8, 0.2)}),
        ("minimum in its index", {"RF-UCRL, clipped": (0.25, 0.05)}),
        ("minimum in its index", {"RF-UCRL, clipped": (0.1, 0.02)}),
    ],
)
def test_other_errors_are_not_taken_for_those_of_the_paper(word, changes):
    found = list(claims.error_claims(errors(AS_IN_THE_PAPER | changes), "chain", "pooled"))
    assert verdict_on(found, word) is False


def test_two_runs_decide_nothing():
    found = list(claims.error_claims(errors(AS_IN_THE_PAPER, runs=2), "chain", "pooled"))
    assert [verdict_on(found, word) for word in ("fastest", "smallest", "minimum in its index")] == [None] * 3
    few = {agent: seen[:2] for agent, seen in visits().items()}
    assert verdict_on(claims.visit_claims(few, "chain", "pooled"), "focuses") is None
    one = list(claims.error_claims(errors(AS_IN_THE_PAPER, runs=1), "chain", "pooled"))
    assert verdict_on(one, "fastest") is None


def test_a_bound_that_fails_too_often_is_noticed():
    rows = errors(AS_IN_THE_PAPER)
    for row in rows:
        if row["agent"] == "RF-UCRL" and row["run"] < 2:  # of 12, more than delta = 0.1
            row["bound"] = row["error"] / 2
    assert verdict_on(claims.error_claims(rows, "chain", "pooled"), "still an upper bound") is False
    for row in rows:
        if row["agent"] == "RF-UCRL" and row["run"] == 1:
            row["bound"] = row["error"] * 2
    assert verdict_on(claims.error_claims(rows, "chain", "pooled"), "still an upper bound") is True


def on_the_chain(**shapes):
    """Visits of 31 states in 12 runs: shares by agent."""
    rng = np.random.default_rng(1)
    return {agent: rng.poisson(5_000 * share / share.sum(), (12, 31)).astype(float) for agent, share in shapes.items()}


EVEN, STATES = np.ones(31), np.arange(31)
HILL = np.exp(-((STATES - 15) ** 2) / 8.0)
RIGHT = np.where(STATES > 15, 3.0, 1.0)


def visits(rf=EVEN, random=HILL, bpi=RIGHT, generative=EVEN):
    found = on_the_chain(rf=rf, random=random, bpi=bpi, known=RIGHT)
    return {
        "RF-UCRL": found["rf"],
        "random policy": found["random"],
        "generative model": np.full((12, 31), 161.0) if generative is EVEN else on_the_chain(x=generative)["x"],
        "BPI-UCRL": found["bpi"],
        claims.BARE: found["known"],
        claims.KNOWN: found["known"],
    }


def test_visits_as_in_the_paper_are_seen():
    found = list(claims.visit_claims(visits(), "chain", "pooled"))
    assert all(claim.observed for claim in found)
    assert len(found) == 7


@pytest.mark.parametrize(
    ("word", "changes"),
    [
        ("does not reach", {"random": EVEN}),
        ("uniformly", {"generative": HILL}),
        ("less visited", {"rf": HILL}),
        ("fully", {"rf": np.where(STATES < 30, 1.0, 0.0)}),
        ("focuses", {"bpi": EVEN}),
        ("focuses", {"bpi": RIGHT[::-1]}),
    ],
)
def test_other_visits_are_not_taken_for_those_of_the_paper(word, changes):
    assert verdict_on(claims.visit_claims(visits(**changes), "chain", "pooled"), word) is False


def test_the_grid_is_looked_at_around_the_reward():
    rows, cols = np.divmod(np.arange(441), 21)
    near = abs(rows - 16) + abs(cols - 16) <= 4
    even = np.full((12, 441), 50.0)
    found = dict.fromkeys((*claims.PAPER, claims.BARE, claims.KNOWN), even)
    assert verdict_on(claims.visit_claims(found, "grid", "pooled"), "focuses") is False
    rng = np.random.default_rng(2)
    found = {**found, "BPI-UCRL": rng.poisson(50 + 50 * near, (12, 441)).astype(float)}
    assert verdict_on(claims.visit_claims(found, "grid", "pooled"), "focuses") is True


def taus(rf=lambda e: 1e6 / e**2, bpi=lambda e: 1e4 / e**2, runs=6):
    rng, rows = np.random.default_rng(3), []
    for agent, of in {"RF-UCRL": rf, "BPI-UCRL": bpi}.items():
        for run in range(runs):
            for level in (4.0, 2.0, 1.0, 0.5, 0.25):
                tau = of(level)
                tau = None if tau is None else int(tau * np.exp(0.02 * rng.normal()))
                row = {"agent": agent, "counts": "pooled", "run": run, "epsilon": level}
                rows.append({**row, "tau": tau, "episodes": tau or 10**8})
    return rows


@pytest.mark.slow
def test_stopping_times():
    assert [claim.observed for claim in claims.tau_claims(taus(), "pooled")] == [True, True, True]
    steep = claims.tau_claims(taus(bpi=lambda e: 1e5 / e**4), "pooled")  # more than RF-UCRL for small epsilon
    assert [claim.observed for claim in steep] == [False, True, False]
    none = claims.tau_claims(taus(bpi=lambda e: None), "pooled")
    assert [claim.observed for claim in none] == [None, True, None]
    late = claims.tau_claims(taus(rf=lambda e: None), "pooled")  # more than 10^8 is still much more
    assert [claim.observed for claim in late] == [True, None, True]
    nothing = claims.tau_claims(taus(bpi=lambda e: 0), "pooled")  # certain without data
    assert [claim.observed for claim in nothing] == [None, True, None]


def test_exponents_are_those_of_power_laws():
    rows = []
    for parameter, power in claims.predicted("by step").items():
        for value in (1e-2, 1e-4, 1e-8) if parameter.startswith("log") else (2.0, 4.0, 8.0):
            x = np.log(1 / value) if parameter.startswith("log") else value
            row = {"parameter": parameter, "value": value, "counts": "by step", "run": 0}
            rows.append({**row, "episodes": 100 * x ** (power / 2), "bound": 9 * x**power})
    for _, measured, of_the_bound, power in claims.exponents(rows, "by step"):
        assert measured == pytest.approx(power / 2)
        assert of_the_bound == pytest.approx(power)
    assert claims.predicted("by step")["H"] == 4.0
    assert claims.predicted("pooled")["H"] == 3.0

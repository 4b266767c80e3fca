"""The paper's experiments, small: the same whatever carries them out, and its main claims seen."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import anyreward as ar
from anyreward.experiments import reproduce as experiment

SCRIPT = Path(sys.executable).parent / "anyreward"
TINY = experiment.Budget(2, 6_000, 6_000, 5_000, 6_000, 20_000, 1_000)
TABLES = ("errors", "visits", "tau", "scaling")


def test_tables_are_the_same_whatever_carries_them_out(tmp_path):
    for workers in (1, 3):
        with ThreadPoolExecutor(workers) as pool:
            claims = experiment.run(tmp_path / str(workers), TINY, 5, pool)
    for name in TABLES:
        one, three = ((tmp_path / folder / f"{name}.parquet").read_bytes() for folder in ("1", "3"))
        assert one == three
    assert len(claims) >= 12
    about = json.loads(pq.read_schema(tmp_path / "1" / "errors.parquet").metadata[b"anyreward.reproduce"])
    assert about == {"budget": vars(TINY), "seed": 5, "as_published": False}


def test_the_authors_configuration_is_another_problem():
    """Their index is unclipped, with 1/sqrt(2) of the bonus and one step more; their chain fails half as often."""
    mdp = experiment.environment("chain", True)
    assert mdp.dense()[15, 1, 16] == pytest.approx(0.95)
    explorer = experiment.explorer_of("RF-UCRL", mdp, 0, True)
    paper = experiment.explorer_of("RF-UCRL", mdp, 0, False)
    assert explorer.setting.discount == 0.99
    assert paper.setting.discount == 1.0
    sigma = explorer.setting.sigma
    np.testing.assert_allclose(explorer.rule().weight, [0.99 * sigma[20 - h] / np.sqrt(2) for h in range(20)])
    rows = [experiment.stops("RF-UCRL", 0, 3, 2_000_000, published) for published in (False, True)]
    reached = [{row["epsilon"]: row["tau"] for row in part if row["tau"]} for part in rows]
    for level in set(reached[0]) & set(reached[1]):
        assert reached[1][level] < reached[0][level]
    assert set(reached[0]) & set(reached[1])


def test_exponents_are_those_of_power_laws():
    rows = []
    for parameter, (values, predicted) in experiment.SCALING.items():
        for value in values:
            x = np.log(1 / value) if parameter.startswith("log") else value
            rows.append({"parameter": parameter, "value": value, "run": 0, "episodes": 100 * x ** (predicted / 2)})
    for _, measured, predicted in experiment.exponents(rows):
        assert measured == pytest.approx(predicted / 2)


def test_the_stopping_times_are_those_of_runs_for_each_epsilon():
    """One run serves all: the first episode at which the paper's rule stops at that epsilon."""
    rows = experiment.stops("RF-UCRL", 0, 3, 1_200_000)
    reached = [(row["epsilon"], row["tau"]) for row in rows if row["tau"] is not None]
    assert len(reached) >= 2
    assert [tau for _, tau in reached] == sorted(tau for _, tau in reached)
    mdp = ar.envs.double_chain()
    for level, tau in reached:
        atlas = ar.explore(
            mdp,
            20,
            level * 20,
            algorithm="rf-ucrl",
            bounds="paper",
            clip=False,
            replan="every",
            stationary=True,
            seed=3,
            progress=False,
        )
        assert atlas.episodes == tau


def test_errors_are_those_of_planning_on_the_counts():
    rows = experiment.curve("chain", "RF-UCRL", 0, 4, 2_000, 1_000)
    mdp = ar.envs.double_chain()
    atlas = ar.explore(
        mdp, 20, max_episodes=100, algorithm="rf-ucrl", bounds="paper", clip=False, replan="every", stationary=True, seed=4
    )
    model = atlas.counts.model()
    best, found = (float(m.initial @ ar.backward_induction(m, mdp.reward, 20).V[0]) for m in (mdp, model))
    assert rows[-1]["transitions"] == 2_000
    assert rows[-1]["error"] == pytest.approx(abs(best - found), abs=1e-12)
    assert sum(row["visits"] is not None for row in rows) == 1
    assert np.sum(next(row["visits"] for row in rows if row["visits"] is not None)) == 1_000


@pytest.mark.slow
def test_the_main_claims_are_seen_in_quick_mode(tmp_path):
    """BPI-UCRL's error falls fastest, RF-UCRL is close to the generative model, the random policy misses the ends."""
    done = subprocess.run(
        [SCRIPT, "reproduce", "--quick", "--json", "--out", "it"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=400,
        check=True,
    )
    claims = {claim["text"]: claim for claim in json.loads(done.stdout)}
    for text in (
        "On the double chain, the error decays the fastest under BPI-UCRL.",
        "On the double chain, RF-UCRL is close to the agent with a generative model.",
        "On the double chain, the random policy does not reach the borders of the chain, and RF-UCRL does.",
        "On the double chain, RF-UCRL estimates better than the random policy.",
        "On the double chain, the generative model spreads its visits evenly.",
        "On the grid, the error decays the fastest under BPI-UCRL.",
        "On the grid, RF-UCRL is close to the agent with a generative model.",
        "BPI-UCRL has a much smaller sample complexity than RF-UCRL.",
        "The sample complexity of RF-UCRL grows like 1/epsilon^2.",
    ):
        assert claims[text]["observed"], claims[text]
    for name in ("errors", "visits", "tau"):
        assert (tmp_path / "it" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert (tmp_path / "it" / f"{name}.pdf").read_bytes().startswith(b"%PDF")
        assert pq.read_table(tmp_path / "it" / f"{name}.parquet").num_rows > 0
    page = (tmp_path / "it" / "report.html").read_text()
    assert all(text.replace("'", "&#x27;") in page for text in claims)
    assert page.count("data:image/png;base64,") == 3

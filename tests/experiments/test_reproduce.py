"""The paper's experiments, small: the same whatever carries them out, and its main claims seen."""

import html
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import anyreward as ar
from anyreward.cli import app
from anyreward.experiments import reproduce as experiment
from anyreward.experiments.claims import verdicts

TINY = experiment.Budget(2, 1, 6_000, 6_000, 5_000, 6_000, 20_000, 1_000, 1)
SMALL = experiment.Budget(8, 2, 60_000, 15_000, 5_000, 20_000, 10**7, 4 * 10**4, 2)
TABLES = ("errors", "visits", "tau", "scaling", "theorems")


@pytest.fixture
def smaller_models(monkeypatch):
    monkeypatch.setattr(experiment, "SCALING", {name: values[:2] for name, values in experiment.SCALING.items()})


@pytest.mark.slow
def test_tables_are_the_same_whatever_carries_them_out_and_however_often_it_is_interrupted(tmp_path, monkeypatch, smaller_models):
    monkeypatch.setattr(experiment, "write_report", lambda out, *_: (out / "report.html").write_text(""))
    with ThreadPoolExecutor(3) as pool:
        claims, failures = experiment.run(tmp_path / "whole", TINY, 5, pool)
    assert not failures

    class Enough(Exception):
        pass

    def stop(done, total):
        if done >= before + 30:
            raise Enough

    before, interruptions = 0, 0
    while True:
        try:
            with ThreadPoolExecutor(1) as pool:
                again, _ = experiment.run(tmp_path / "parts", TINY, 5, pool, progress=stop)
            break
        except Enough:
            before = len(list((tmp_path / "parts" / "cells").iterdir()))
            interruptions += 1
            assert not (tmp_path / "parts" / "report.html").exists()
    assert interruptions >= 3
    for name in TABLES:
        one, other = ((tmp_path / folder / f"{name}.parquet").read_bytes() for folder in ("whole", "parts"))
        assert one == other
    assert again == claims
    about = json.loads(pq.read_schema(tmp_path / "whole" / "errors.parquet").metadata[b"anyreward.reproduce"])
    assert {key: about[key] for key in ("budget", "seed", "as_published", "horizon", "delta")} == {
        "budget": vars(TINY), "seed": 5, "as_published": False, "horizon": 20, "delta": 0.1,
    }  # fmt: skip


@pytest.mark.slow
def test_the_published_configuration_runs_to_its_report(tmp_path, smaller_models):
    with ThreadPoolExecutor(2) as pool:
        claims, failures = experiment.run(tmp_path, TINY, 5, pool, published=True)
    assert not failures
    assert {claim.counts for claim in claims} == {"pooled"}
    assert pq.read_table(tmp_path / "theorems.parquet").num_rows == 0  # they are about other constants
    assert "published configuration" in (tmp_path / "report.html").read_text()


@pytest.mark.slow
def test_a_job_that_fails_leaves_no_report(tmp_path, monkeypatch, smaller_models):
    def never(**given):
        raise RuntimeError("out of luck")

    monkeypatch.setitem(experiment.PARTS, "scaling", never)
    with ThreadPoolExecutor(2) as pool:
        claims, failures = experiment.run(tmp_path, TINY, 5, pool)
    assert not claims
    assert {failure.job.part for failure in failures} == {"scaling"}
    assert all("out of luck" in failure.error for failure in failures)
    assert [path.name for path in tmp_path.iterdir()] == ["cells"]


@pytest.mark.slow
def test_the_authors_configuration_is_another_problem():
    """Their index is unclipped, with 1/sqrt(2) of the bonus and one step more; their chain fails half as often."""
    mdp = experiment.environment("chain", True)
    assert mdp.dense()[15, 1, 16] == pytest.approx(0.95)
    explorer = experiment.explorer_of("RF-UCRL", "pooled", mdp, 0, True)
    paper = experiment.explorer_of("RF-UCRL", "pooled", mdp, 0, False)
    assert explorer.setting.discount == 0.99
    assert paper.setting.discount == 1.0
    sigma = explorer.setting.sigma
    np.testing.assert_allclose(explorer.rule().weight, [0.99 * sigma[20 - h] / np.sqrt(2) for h in range(20)])
    rows = [experiment.stopping_times("RF-UCRL", "pooled", 0, 3, 2_000_000, published) for published in (False, True)]
    reached = [{row["epsilon"]: row["tau"] for row in part if row["tau"]} for part in rows]
    for level in set(reached[0]) & set(reached[1]):
        assert reached[1][level] < reached[0][level]
    assert set(reached[0]) & set(reached[1])
    assert {job.given["counts"] for job in experiment.jobs_of(TINY, 0, True)} == {"pooled"}
    theirs, ours = (experiment.explorer_of("BPI-UCRL", "pooled", mdp, 0, published) for published in (True, False))
    assert theirs._values.constants.log_laws - ours._values.constants.log_laws == pytest.approx(np.log(20))
    assert theirs.rewards == "known"


def test_the_bare_threshold_is_a_constant_and_nobodys_guarantee():
    mdp = experiment.environment("chain")
    explorer = experiment.explorer_of(experiment.BARE, "pooled", mdp, 0)
    experiment.play(explorer, mdp, np.random.default_rng(0), 30)
    n = explorer.counts.table.n
    met = np.flatnonzero(n[: len(explorer._values.bound_arrays.radius)])
    met = met[met > 0]  # the first row is the start, which is known
    np.testing.assert_allclose(explorer._values.bound_arrays.radius[met], np.log(10) / n[met], rtol=1e-12)
    assert explorer.heuristic


@pytest.mark.slow
def test_the_stopping_times_are_those_of_runs_for_each_epsilon():
    """One run serves all: the first episode at which the paper's rule stops at that epsilon."""
    rows = experiment.stopping_times("RF-UCRL", "pooled", 0, 3, 1_200_000, False)
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


@pytest.mark.parametrize("counts", experiment.COUNTS)
def test_errors_are_those_of_planning_on_the_counts(counts):
    rows = experiment.error_curve("chain", "RF-UCRL", counts, 0, 4, 2_000, 1_000, False)
    mdp = ar.envs.double_chain()
    options = {"bounds": "paper", "clip": False, "replan": "every", "stationary": counts == "pooled"}
    atlas = ar.explore(mdp, 20, max_episodes=100, algorithm="rf-ucrl", seed=4, **options)
    model = atlas.counts.model()
    best, found = (float(m.initial @ ar.backward_induction(m, mdp.reward, 20).V[0]) for m in (mdp, model))
    assert rows[-1]["transitions"] == 2_000
    assert rows[-1]["error"] == pytest.approx(abs(best - found), abs=1e-12)
    assert 2 * rows[-1]["bound"] == pytest.approx(atlas.certificate.epsilon)
    assert sum(row["visits"] is not None for row in rows) == 1
    assert np.sum(next(row["visits"] for row in rows if row["visits"] is not None)) == 1_000


@pytest.mark.slow
@pytest.mark.parametrize("published", [False, True])
def test_the_documentation_says_what_the_data_say(published):
    """The tables of the full runs that are kept with the documentation give the verdicts that it prints."""
    docs = Path(__file__).parents[2] / "docs"
    folder = docs / "reproduced" / ("as-published" if published else "")
    read = {name: pq.read_table(folder / f"{name}.parquet") for name in experiment.COLUMNS}
    about = json.loads(read["errors"].schema.metadata[b"anyreward.reproduce"])
    budget = {"tau_rf_runs": about["budget"]["tau_runs"], **about["budget"]}  # earlier versions ran all agents as often
    assert budget == vars(experiment.FULL) | ({"tau_rf_runs": 48} if published else {})
    assert about["as_published"] == published
    text, _, as_published = (docs / "reproduction.md").read_text().partition("## As published")
    lines = (as_published if published else text).splitlines()
    page = (folder / "report.html").read_text()
    claims = verdicts({name: table.to_pylist() for name, table in read.items()})
    for claim in claims:
        line = next(line for line in lines if line.startswith(f"| {claim.text} |"))
        _, _, source, *of_counts, _ = (cell.strip(" *") for cell in line.split("|"))
        assert source == claim.source
        assert of_counts[0 if published else experiment.COUNTS.index(claim.counts)] == claim.verdict.lower()
        assert html.escape(claim.measured) in page
    assert len(claims) == (30 if published else 60)


@pytest.mark.slow
def test_the_main_claims_are_seen_in_quick_mode(tmp_path, monkeypatch, smaller_models):
    """BPI-UCRL's error falls fastest, RF-UCRL is close to the generative model, the random policy misses the ends.

    With half the budget of quick mode, but for the chain: 8 runs and 60,000 transitions are what these claims need.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(experiment, "QUICK", SMALL)
    done = CliRunner().invoke(app, ["reproduce", "--quick", "--json", "--out", "it", "--workers", "1"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    claims = {(claim["counts"], claim["text"]): claim for claim in json.loads(done.stdout)}
    of_both = [
        "On the double chain, RF-UCRL is close to the agent with a generative model.",
        "On the double chain, RF-UCRL's index without the minimum is still an upper bound on the error.",
        "On the double chain, the random policy does not reach the borders of the chain.",
        "On the double chain, the generative model distributes its visits uniformly.",
        "On the double chain, RF-UCRL seeks the states that were less visited.",
        "On the double chain, RF-UCRL manages to explore it fully.",
        "On the grid, RF-UCRL's index without the minimum is still an upper bound on the error.",
        "On the grid, the random policy does not reach the walls of the grid.",
        "On the grid, the generative model distributes its visits uniformly.",
        "On the grid, RF-UCRL seeks the states that were less visited.",
        "The sample complexity of RF-UCRL grows like 1/epsilon^2, but for logarithms.",
    ]
    pooled = [
        "On the double chain, the error decays the fastest under BPI-UCRL.",
        "On the double chain, BPI-UCRL, log(1/δ) focuses on the part with the highest reward.",
        "On the grid, RF-UCRL is close to the agent with a generative model.",
        "BPI-UCRL has a much smaller sample complexity than RF-UCRL.",
    ]
    for counts, text in [*((counts, text) for counts in experiment.COUNTS for text in of_both), *(("pooled", t) for t in pooled)]:
        assert claims[counts, text]["observed"], claims[counts, text]
    figures = [path.stem for path in (tmp_path / "it").glob("*.png")]
    assert len(figures) == 9
    for name in figures:
        assert (tmp_path / "it" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert (tmp_path / "it" / f"{name}.pdf").read_bytes().startswith(b"%PDF")
    for name in (*TABLES, "timings"):
        assert pq.read_table(tmp_path / "it" / f"{name}.parquet").num_rows > 0
    page = (tmp_path / "it" / "report.html").read_text()
    assert all(html.escape(text) in page and html.escape(claim["measured"]) in page for (_, text), claim in claims.items())
    assert page.count("data:image/png;base64,") == len(figures)

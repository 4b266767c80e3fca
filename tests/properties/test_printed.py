"""What is printed: outward, with everything that is assumed, wherever something is certified."""

import functools
import json
import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import anyreward as ar
from anyreward.cli import app

from ..helpers.processes import Process
from ..helpers.tabular import MASK, Tabular, transitions

pytestmark = pytest.mark.usefixtures("quick_look")
S, A, H = 4, 3, 4


# What is printed


def printed(tmp_path, atlas, *reward):
    """All that the command line says of an atlas and a plan from it, as text and as JSON."""
    atlas.save(tmp_path / "it.atlas")
    name, run = str(tmp_path / "it.atlas"), CliRunner()
    info, facts = run.invoke(app, ["info", name]), run.invoke(app, ["info", name, "--json"])
    plan = run.invoke(app, ["plan", name, "--reward", *reward, "--html", str(tmp_path / "it.html")])
    numbers = run.invoke(app, ["plan", name, "--reward", *reward, "--json"])
    for done in (info, facts, plan, numbers):
        assert done.exit_code == 0, done.output
    page = (tmp_path / "it.html").read_text()
    return info.stdout, json.loads(facts.stdout), plan.stdout, json.loads(numbers.stdout), page


ASSUMED = {  # how to explore so that something is assumed, and the sentence about it
    "no state and action have more than 2 successors": (lambda: ar.explore(
        ar.envs.double_chain(5), 4, max_episodes=30, max_successors=2), "state == 1"),
    "every episode starts in state 2": (lambda: ar.explore(ar.envs.double_chain(5), 4, max_episodes=30), "state == 1"),
    "the transitions are the same at every step": (lambda: ar.explore(
        ar.envs.double_chain(5), 4, max_episodes=30, stationary=True), "state == 1"),
    "never left: state 3": (lambda: ar.explore(ending(), 4, max_episodes=30, absorbing_states=(3,)), "state == 1"),
    "which actions are legal depends on the state alone": (lambda: ar.explore(
        Tabular(transitions(S, A), mask=MASK), 4, max_episodes=30), "state == 1"),
    "illegal actions: those of states 0, 2 and 3 as given": (lambda: ar.explore(
        Tabular(transitions(S, A), mask=MASK), 4, max_episodes=30, action_masks=MASK), "state == 1"),
    "every action is legal everywhere": (lambda: ar.explore(
        Tabular(transitions(S, A)), 4, max_episodes=30, action_masks="none"), "state == 1"),
    "a state in which an episode terminated once always terminates it": (lambda: ar.explore(
        Tabular(transitions(S, A), ends=(3,)), 4, max_episodes=30, terminal="state"), "state == 1"),
    "there are at most 9 different observations": (lambda: ar.explore(
        Tabular(transitions(S, A)), 4, max_episodes=30, max_states=9), "state == 1"),
}  # fmt: skip


def ending():
    P = transitions(S, A)
    P[3] = np.eye(S)[3]
    return ar.TabularMDP(P)


@pytest.mark.slow
@pytest.mark.parametrize("sentence", ASSUMED)
def test_what_is_assumed_is_printed_wherever_something_is_certified(sentence, tmp_path):
    make, reward = ASSUMED[sentence]
    atlas = make()
    info, facts, plan, numbers, page = printed(tmp_path, atlas, reward)
    for text in (str(atlas), str(atlas.certificate), str(atlas.plan(reward)), info, plan, page):
        assert sentence in text
    for listed in (facts["assumptions"], numbers["assumptions"], atlas.certificate.assumptions):
        assert sentence in listed


@pytest.mark.slow
def test_plans_for_the_own_reward_print_what_they_assume_and_their_probability(tmp_path):
    atlas = ar.explore(Process(transitions(S, A), pay=lambda h, s, a, n, rng: 1.0), 4, max_episodes=30, stationary=True)
    _, _, plan, numbers, page = printed(tmp_path, atlas, "own", "--rewards", "deterministic", "--stationary-rewards")
    for sentence in ("rewards lie in [0, 1]", "the same transition always pays the same", "rewards do not depend on the step"):
        assert sentence in plan
        assert sentence in page
        assert sentence in numbers["assumptions"]
    _, _, plan, numbers, page = printed(tmp_path, atlas, "own")
    assert "always pays the same" not in plan
    assert numbers["delta"] == 0.1
    for text in (plan, page, str(atlas.plan("own"))):
        assert "0.9" in text
        assert "0.8" not in text.split("assumes")[0].split("png")[0]


@pytest.mark.slow
def test_intervals_are_printed_outward(tmp_path):
    atlas = ar.explore(ar.envs.double_chain(7), 5, max_episodes=300)
    plan = atlas.plan("state == 6")
    info, facts, text, numbers, page = printed(tmp_path, atlas, "state == 6")
    assert facts["epsilon"] == atlas.certificate.epsilon
    assert (numbers["lower"], numbers["upper"]) == pytest.approx((plan.lower, plan.upper), rel=1e-12)
    loaded = ar.load(tmp_path / "it.atlas").plan("state == 6")
    said = text.split("with probability 0.9: ")[1].split("\n")[0].split(" <= ")
    assert float(said[0]) <= loaded.lower
    assert float(said[3]) >= loaded.upper
    for shown in (str(atlas.certificate), info):
        assert float(shown.split("epsilon ")[1].split()[0]) >= atlas.certificate.epsilon
    low, high = str(plan).split("[")[1].split("]")[0].split(", ")
    assert float(low) <= plan.lower
    assert float(high) >= plan.upper
    low, high = re.search(r"an episode of this plan earns (\S+) to (\S+) on average", page).groups()
    assert float(low) <= loaded.lower
    assert float(high) >= loaded.upper


@pytest.mark.slow
def test_a_certificate_that_says_nothing_says_so(tmp_path):
    atlas = ar.explore(ar.envs.double_chain(7), 5, max_episodes=1)
    assert atlas.certificate.epsilon >= 5
    assert "which says nothing: no two values differ by more than 5" in str(atlas.certificate)
    info, facts, *_ = printed(tmp_path, atlas, "state == 6")
    assert "says nothing" in info
    assert facts["says_nothing"]
    assert "says nothing" not in str(ar.explore(ar.envs.double_chain(7), 5, epsilon=4.5).certificate)


@pytest.mark.slow
def test_a_certificate_of_zero_can_be_shown(tmp_path):
    atlas = ar.explore(ar.envs.double_chain(7), 1, epsilon=0.5)
    assert atlas.certificate.epsilon == 0
    info, facts, *_ = printed(tmp_path, atlas, "state == 3")
    assert "epsilon 0 with probability 0.9" in info
    assert facts["epsilon"] == 0


def test_what_is_said_to_be_saved_is_there(tmp_path):
    """Once, what was certified without a single episode was said to be saved and was not."""
    path = tmp_path / "it.atlas"
    call = ["explore", "double-chain", "--horizon", "1", "--epsilon", "1", "--out", str(path)]
    done = CliRunner().invoke(app, call)
    assert done.exit_code == 0
    assert ar.load(path).certificate.met
    assert CliRunner().invoke(app, [*call, "--resume"]).exit_code == 0


@pytest.mark.slow
def test_numbers_that_are_given_are_printed_as_they_are(tmp_path):
    atlas = ar.explore(ar.envs.double_chain(5), 3, epsilon=2.123456789, discount=0.99999999)
    assert "discount 0.99999999," in str(atlas.certificate)
    info, *_ = printed(tmp_path, atlas, "state == 1")
    assert "target: epsilon 2.123456789, reached" in info


def test_every_promise_in_the_documentation_is_watched_by_tests_that_exist():
    """The table of docs/theory.md, section 11: each test that it names is there."""
    tests, rows = Path(__file__).parents[1], 0
    for line in (tests.parent / "docs" / "theory.md").read_text().split("## 11.")[1].split("## 12.")[0].splitlines():
        if not line.startswith("| ") or line.startswith("| what"):
            continue
        rows += 1
        watched = line.split("|")[4]
        file = None
        for name in re.findall(r"`([^`]+)`", watched):
            path, _, beginning = name.partition("::")
            file = tests / path if path != "…" else file
            assert file.exists()
            assert not beginning or re.search(rf"def {beginning.rstrip('…')}", file.read_text())
    assert rows >= 20


# The start, before it was met


def test_an_unknown_mask_of_the_start_is_an_error_of_the_first_reward():
    """Once, one step was certified with epsilon 0 after no episode, and the plan was an illegal action."""
    process = functools.partial(Process, np.ones((1, 2, 1)), mask=np.array([[0, 1]]))
    for bounds, algorithm in (("tight", "rf-trajectory"), ("paper", "rf-ucrl")):
        options = {"initial_state": 0, "bounds": bounds, "algorithm": algorithm}
        nothing, one = (ar.explore(process(), 1, max_episodes=n, **options) for n in (0, 1))
        assert nothing.certificate.epsilon >= 2.0
        assert one.certificate.epsilon == 0.0
        assert one.plan(np.ones((1, 2))).policy.tolist() == [[1]]
        known = ar.explore(process(), 1, max_episodes=0, action_masks=[[0, 1]], **options)
        assert known.certificate.epsilon == 0.0
        assert known.plan(np.ones((1, 2))).policy.tolist() == [[1]]


def test_the_own_guarantee_of_an_algorithm_that_does_not_know_masks_is_not_given():
    process = functools.partial(Process, np.full((2, 2, 2), 0.5), mask=np.array([[1, 1], [1, 0]]))
    for name, kind in ar.ALGORITHMS.items():
        if name == "generative" or kind.needs_budget:
            continue
        options = {"reward": np.eye(2)[0]} if kind.needs_reward else {}
        own = ar.explore(process(), 2, max_episodes=3, algorithm=name, initial_state=0, **options).source["own"]
        assert (own["epsilon"] is None) or kind.handles_masks

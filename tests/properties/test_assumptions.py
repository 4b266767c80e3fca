"""Whatever a user states is printed in the same words: by certificates and plans, by info, in JSON and on the page."""

import html
import json
import pickle

import numpy as np
import pytest
from typer.testing import CliRunner

import anyreward as ar
from anyreward.atlas.atlas import SAME
from anyreward.atlas.verification import SAME as SAME_EPISODES
from anyreward.cli import app
from anyreward.data.logs import CUT_OFF, IN_ORDER
from anyreward.exploring.run import LOST
from anyreward.rewards.observed import PAID_ONCE

from ..helpers.tabular import MASK, Tabular, box, texts, transitions

H = 3
P = transitions()
CYCLE = np.eye(4)[[[1, 2], [2, 3], [3, 0], [0, 1]]]  # deterministic: action a leads a + 1 states further
LAW = (0.5, 0.5, 0.0, 0.0)
TABLE = {"id": [1, 1, 2, 2, 2, 3], "where": ["a", "b", "a", "b", "a", "a"], "what": ["x", "y", "x", "x", "y", "y"]}


def explored(env, **more):
    return ar.explore(env, H, max_episodes=60, progress=False, **more)


def process(**more):
    """An environment in which reaching the last state pays 1 and ends the episode."""
    return Tabular(**{"P": P, "ends": {3}, "pay": lambda s, a, s_next: float(s_next == 3), **more})


def model(P=P):
    return ar.TabularMDP(P, 0, reward=np.arange(4) / 3)


def declared():
    setting = ar.Setting(n_states=4, n_actions=2, horizon=2, initial_state=0, assumed=("the valve is shut",))
    counts = ar.Counts.from_episodes([[0, 1, 1], [0, 2, 3]], [[0, 0], [0, 0]], setting)
    counts.declare_absorbing([1])
    counts.declare_illegal(2, [1])
    return ar.Atlas(counts, ar.certify(counts))


def merged():
    counts = ar.Counts.from_episodes([[0, 1, 1]], [[0, 0]], declared().counts.setting)
    return declared().merge(ar.Atlas(counts, ar.certify(counts)), same_environment=True)


def logged(**more):
    counts = ar.Counts.from_dataframe(TABLE, horizon=H, episode="id", state="where", action="what", **more)
    return ar.Atlas(counts, ar.certify(counts))


def resumed(folder):
    """An exploration that was resumed after its environment failed once."""
    failures = []

    class Fails(Tabular):
        def step(self, action):
            if counted[0] > 30 and not failures:
                failures.append(self.t)
                raise RuntimeError("out of order")
            return super().step(action)

    counted, call = [0], {"max_episodes": 60, "progress": lambda episodes, epsilon: counted.insert(0, episodes)}
    with pytest.raises(ValueError, match="out of order"):
        ar.explore(Fails(P), H, checkpoint=folder / "failed.atlas", **call)
    return ar.explore(Fails(P), H, checkpoint=folder / "failed.atlas", **call)


def identified(env=None, **known):
    return ar.identify(env or process(), "own", H, max_episodes=60, progress=False, **known)


# How an atlas is made under each assumption that can be stated of an environment or of data, and the phrase that says so.
STATED = {
    "stationary": (lambda: explored(model(), stationary=True), "the transitions are the same at every step"),
    "initial_state": (lambda: explored(process(), initial_state=0), "every episode starts in state 0"),
    "initial_state with a name": (
        lambda: explored(process(), initial_state=0, state_names=["the <door>", "b", "c", "d"]),
        "every episode starts in state 0 (the <door>)",
    ),
    "initial": (
        lambda: explored(process(start=LAW), initial=LAW),
        "the initial state has the given distribution: state 0 with probability 0.5, state 1 with 0.5",
    ),
    "deterministic": (lambda: explored(model(CYCLE), deterministic=True), "every transition is deterministic"),
    "deterministic ends": (
        lambda: explored(process(P=CYCLE), deterministic=True),
        "every transition is deterministic, and so is whether it terminates the episode",
    ),
    "max_successors": (lambda: explored(model(), max_successors=4), "no state and action have more than 4 successors"),
    "max_successors and ends": (
        lambda: explored(process(), max_successors=5),
        "no state and action have more than 5 successors, where continuing from a state and terminating there count as two",
    ),
    "action_masks": (
        lambda: explored(Tabular(transitions(4, 3), mask=MASK), action_masks=MASK),
        "illegal actions: those of states 0, 2 and 3 as given",
    ),
    "action_masks='none'": (lambda: explored(process(), action_masks="none"), "every action is legal everywhere"),
    "masks of the environment": (lambda: explored(process()), "which actions are legal depends on the state alone"),
    "absorbing_states": (
        lambda: explored(model(np.stack([*P[:3], np.eye(4)[[3, 3]]])), absorbing_states=(3,)),
        "never left: state 3",
    ),
    "terminal='state'": (
        lambda: explored(process(), terminal="state"),
        "a state in which an episode terminated once always terminates it",
    ),
    "bins": (lambda: explored(process(**box()), bins=[4]), "what follows depends on the bins of an observation alone"),
    "max_states": (lambda: explored(process(**texts()), max_states=7), "there are at most 7 different observations"),
    "declare_absorbing": (declared, "never left, as declared: state 1"),
    "declare_illegal": (declared, "illegal actions as declared: in state 2"),
    "assumed": (declared, "the valve is shut"),
    "same_environment": (merged, SAME),
    "order of a log": (lambda: logged(order=True), IN_ORDER),
    "a log that is cut off": (logged, CUT_OFF),
    "initial_state of a log": (lambda: logged(initial_state="a"), "every episode starts in state 0 (a)"),
    "states of a log": (logged, "there are no other states than the 2 that appear in the data"),
    "actions of a log": (logged, "there are no other actions than the 2 that appear in the data"),
    "max_states of a log": (lambda: logged(max_states=9), "there are at most 9 different states"),
    "reward_range to be identified": (lambda: identified(reward_range=(0, 2)), "rewards lie in [0, 2]"),
    "observed rewards": (
        lambda: identified(process(pay=lambda s, a, s_next: a / 2), rewards="deterministic"),
        "the same step, state and action always pay the same",
    ),
    "stationary rewards to be identified": (
        lambda: identified(stationary=True, stationary_rewards=True),
        "rewards do not depend on the step",
    ),
    "paid_once to be identified": (lambda: identified(paid_once=True), PAID_ONCE),
    "failures": (resumed, LOST.format(1)),
}

# What can be stated of a reward when a plan is made for it: as arguments and as options, and the phrase.
OF_REWARDS = {
    "reward_range": ({"reward_range": (0, 2)}, ["--reward-range", "0,2"], "rewards lie in [0, 2]"),
    "deterministic": (
        {"rewards": "deterministic"},
        ["--rewards", "deterministic"],
        "the same transition always pays the same at the same step",
    ),
    "deterministic at any step": (
        {"rewards": "deterministic", "stationary_rewards": True},
        ["--rewards", "deterministic", "--stationary-rewards"],
        "the same transition always pays the same",
    ),
    "stationary_rewards": ({"stationary_rewards": True}, ["--stationary-rewards"], "rewards do not depend on the step"),
    "paid_once": ({"paid_once": True}, ["--paid-once"], PAID_ONCE),
}


def said(*arguments):
    """What a command prints."""
    result = CliRunner().invoke(app, list(map(str, arguments)))
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.filterwarnings("ignore:.*observations are divided into bins")
@pytest.mark.parametrize("name", STATED)
def test_what_is_stated_is_printed_everywhere(tmp_path, name):
    make, phrase = STATED[name]
    atlas = make(tmp_path) if make is resumed else make()
    file, page, reward = tmp_path / "it.atlas", tmp_path / "page.html", "state == 0"
    atlas.save(file)
    assert phrase in atlas.certificate.assumptions
    for it in (atlas, ar.load(file)):
        plan = it.plan(reward)
        for thing in (it, it.certificate, plan, it.evaluate(plan.policy, reward), it.improvement(plan)):
            assert phrase in str(thing)
        for thing in (it, it.certificate, plan):
            assert html.escape(phrase) in thing._repr_html_()
    assert phrase in said("info", file)
    assert phrase in json.loads(said("info", file, "--json"))["assumptions"]
    assert phrase in said("plan", file, "--reward", reward, "--html", page)
    assert phrase in json.loads(said("plan", file, "--reward", reward, "--json"))["assumptions"]
    assert html.escape(phrase) in page.read_text()
    assert phrase in said("evaluate", file, "--policy", "behaviour", "--reward", reward)
    assert phrase in json.loads(said("evaluate", file, "--policy", "behaviour", "--reward", reward, "--json"))["assumptions"]


@pytest.mark.parametrize("name", OF_REWARDS)
def test_what_is_stated_of_a_reward_is_printed_with_plans_for_it(tmp_path, name):
    known, options, phrase = OF_REWARDS[name]
    file, page = tmp_path / "it.atlas", tmp_path / "page.html"
    explored(process()).save(file)
    atlas = ar.load(file)
    plan = atlas.plan("own", **known)
    found = atlas.evaluate(plan.policy, "own", **known), atlas.improvement(plan), atlas.verify(plan, process(), 20)
    for thing in (plan, *found):
        assert phrase in thing.assumptions
        assert phrase in str(thing)
    assert html.escape(phrase) in plan._repr_html_()
    assert phrase in said("plan", file, "--reward", "own", *options, "--html", page)
    assert phrase in json.loads(said("plan", file, "--reward", "own", *options, "--json"))["assumptions"]
    assert html.escape(phrase) in page.read_text()
    call = ("evaluate", file, "--policy", "behaviour", "--reward", "own", *options)
    assert phrase in said(*call)
    assert phrase in json.loads(said(*call, "--json"))["assumptions"]


def test_what_is_played_is_of_the_same_environment():
    found = (atlas := explored(process())).verify(atlas.plan("own"), process(), 20, also={"zero": np.zeros(4)})
    assert SAME_EPISODES in str(found)
    assert SAME_EPISODES in str(found.scores["zero"])
    assert "rewards lie in [0, 1]" not in str(found.scores["zero"])  # that one is given


def test_an_interval_is_three_numbers_that_know_when_they_hold():
    atlas = explored(model(), delta=0.25)
    found = atlas.evaluate(np.zeros((H, 4), int), "state == 3")
    lower, value, upper = found
    assert lower <= value <= upper
    assert found == (lower, value, upper)
    assert str(found).startswith(f"{value:.4g} in [")
    assert str(found).endswith("] with probability 0.75; assumes: every episode starts in state 0")
    again = pickle.loads(pickle.dumps(found))
    assert (again, again.delta, again.assumptions) == (found, 0.25, found.assumptions)

"""Planning over what was visited, against plain loops over everything; and what it takes in memory."""

import json
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import anyreward as ar
from anyreward.kernels.robust import LOWER, UPPER
from anyreward.planning import induct

from ..helpers.waiting import PATIENCE

S, A, H = 5, 3, 4
NUMBERS = st.sampled_from([0.0, 0.1, 0.25, 0.3, 0.1 + 0.2, 1.0])  # with equal sums of different terms, so that there are ties


def rewards():
    """Rewards that depend on some of step, state and action."""
    shapes = st.tuples(st.sampled_from([1, H]), st.sampled_from([1, S]), st.sampled_from([1, A]))
    return shapes.flatmap(
        lambda shape: st.lists(NUMBERS, min_size=int(np.prod(shape)), max_size=int(np.prod(shape))).map(
            lambda values: np.broadcast_to(np.array(values).reshape(shape), (H, S, A))
        )
    )


def problems():
    """Counts of few random episodes in settings of all kinds."""
    return st.builds(counts_of, st.integers(0, 10**6), st.integers(0, 6), st.booleans(), st.booleans(), st.booleans())


def counts_of(seed, episodes, stationary, absorbing, illegal):
    rng = np.random.default_rng(seed)
    known = {"absorbing_states": (4,) if absorbing else (), "illegal_actions": ((1, 0),) if illegal else ()}
    counts = ar.Counts(ar.Setting(n_states=S, n_actions=A, horizon=H, stationary=stationary, discount=0.9, **known))
    states, actions = rng.integers(0, S, (episodes, H + 1)), rng.integers(0, A, (episodes, H))
    for h in range(H):
        states[:, h + 1] = np.where(absorbing & (states[:, h] == 4), 4, states[:, h + 1])
        actions[:, h] = np.where(illegal & (states[:, h] == 1), np.maximum(actions[:, h], 1), actions[:, h])
    counts.add_episodes(*counts.checked(states, actions))
    return counts


def planned(counts, reward, seen_only, policy=None, worst=False):
    """Q, V and the actions by plain loops over all steps, states and actions; sums in the order of the successors."""
    setting, c = counts.setting, counts.columns()
    n = np.zeros((H, S, A, S))
    for h, s, a, then, many in zip(*(c[x].tolist() for x in ("h", "s", "a", "next", "count")), strict=True):
        if h >= 0:
            n[h if not setting.stationary else slice(None), s, a, then] = many
    Q, V, chosen = np.zeros((H, S, A)), np.zeros((H + 1, S)), np.zeros((H, S), int)
    for h in range(H - 1, -1, -1):
        mean = 0.0
        for s in range(S):
            mean += V[h + 1, s]
        mean = V[h + 1].min() if worst else mean / S
        for s in range(S):
            seen = [s in setting.absorbing_states or n[h, s, a].any() for a in range(A)]
            for a in range(A):
                ahead = mean
                if s in setting.absorbing_states:
                    ahead = V[h + 1, s]
                elif n[h, s, a].any():
                    ahead = 0.0
                    for then in np.flatnonzero(n[h, s, a]):
                        ahead += n[h, s, a, then] / n[h, s, a].sum() * V[h + 1, then]
                Q[h, s, a] = -np.inf if (s, a) in setting.illegal_actions else reward[h, s, a] + setting.discount * ahead
            among = [a for a in range(A) if seen[a] or not (seen_only and any(seen))]
            best = max(Q[h, s, a] for a in among)
            good = [a for a in among if Q[h, s, a] == best]
            good = [a for a in good if seen[a] and worst] + good
            chosen[h, s] = good[0] if policy is None else policy[h, s]
            V[h, s] = Q[h, s, chosen[h, s]]
    return Q, V, chosen


@settings(max_examples=150, deadline=None)
@given(problems(), rewards(), st.booleans())
def test_planning_over_what_was_visited_is_planning_over_everything(counts, reward, seen_only):
    """To the bit: values of all steps, also step by step, the start, action values, and the policy where nothing was seen too."""
    found = induct(counts.model(), reward, H, 0.9, prefers_seen=seen_only)
    Q, V, chosen = planned(counts, reward, seen_only)
    np.testing.assert_array_equal(found.V, V)
    np.testing.assert_array_equal(found.Q, Q)
    np.testing.assert_array_equal(found.start, V[0])
    for h, row in found.each():
        np.testing.assert_array_equal(row, V[h])
    absorbing = np.isin(np.arange(S), counts.setting.absorbing_states)  # there only the reward of the action matters
    np.testing.assert_array_equal(found.policy[:, ~absorbing], chosen[:, ~absorbing])
    again = induct(counts.model(), reward, H, 0.9, found.choice)
    np.testing.assert_allclose(again.V, V, rtol=0, atol=1e-14)
    other = np.random.default_rng(0).integers(1, A, (H, S))
    np.testing.assert_array_equal(induct(counts.model(), reward, H, 0.9, other).V, planned(counts, reward, False, other)[1])


@settings(max_examples=50, deadline=None)
@given(problems(), rewards())
def test_the_worst_completion_leads_from_what_was_never_tried_to_the_worst_state(counts, reward):
    """To the bit, with actions that were seen before others among equals; worth no more than the uniform completion."""
    found = induct(counts.model(), reward, H, 0.9, worst=True)
    Q, V, chosen = planned(counts, reward, False, worst=True)
    np.testing.assert_array_equal(found.V, V)
    np.testing.assert_array_equal(found.Q, Q)
    absorbing = np.isin(np.arange(S), counts.setting.absorbing_states)
    np.testing.assert_array_equal(found.policy[:, ~absorbing], chosen[:, ~absorbing])
    assert (found.start <= induct(counts.model(), reward, H, 0.9).start + 1e-12).all()


@settings(max_examples=40, deadline=None)
@given(problems(), rewards())
def test_a_policy_is_the_same_in_every_form(counts, reward):
    """As an array, as one-hot probabilities and as it is kept, its extreme values are the same, and so is what it plays."""
    atlas = ar.Atlas(counts, ar.certify(counts))
    plan = atlas.plan(reward)
    setting = counts.setting
    robust = atlas._robust(plan.scoring, 0)
    mixed = np.eye(A)[plan.policy]
    for side in (LOWER, UPPER):
        values = robust.state_values(side, plan.choice)
        np.testing.assert_array_equal(values, robust.state_values(side, plan.policy))
        np.testing.assert_array_equal(values, robust.state_values(side, mixed))
        assert robust.of(plan.choice, side) == robust.of(plan.policy, side)
        for h, row in robust.each(side, plan.choice):
            np.testing.assert_array_equal(row, values[h])
        Q, best = robust.best(side)
        assert robust.of(None, side) == best
        greedy = robust.of(robust.chosen(side), side)
        assert greedy == pytest.approx(best, abs=1e-12)
        assert greedy == robust.of(Q.argmax(axis=2), side)
    n = np.broadcast_to(counts.n(), (H, S, A))
    np.testing.assert_array_equal(plan.visits, np.take_along_axis(n, plan.policy[..., None], axis=2)[..., 0])
    played = [[plan.act(s, h) for s in range(S)] for h in range(setting.horizon)]
    np.testing.assert_array_equal(played, plan.policy)
    assert tuple(atlas.evaluate(plan, reward)) == tuple(atlas.evaluate(plan.policy, reward))


MEMORY = """
import json, resource
import numpy as np
import anyreward as ar
from anyreward.pages import plan_page

def grown():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

def plan(S, H, stationary, episodes=200):
    rng = np.random.default_rng(0)
    setting = ar.Setting(n_states=S, n_actions=4, horizon=H, stationary=stationary, initial_state=0)
    states, actions = np.minimum(rng.integers(0, 50, (episodes, H + 1)), S - 1), rng.integers(0, 4, (episodes, H))
    states[:, 0] = 0
    counts = ar.Counts.from_episodes(states, actions, setting)
    atlas = ar.Atlas(counts, ar.certify(counts))
    made = atlas.plan("state == 3")
    atlas.evaluate(made, "state == 3")
    atlas.explain("state == 3")
    plan_page(made, "state == 3")
    atlas.reach("state == 3")
    return made

for stationary in (True, False):
    plan(10, 3, stationary, 5)
before = grown()
for stationary in (True, False):
    plan(300_000, 40, stationary)
print(json.dumps(grown() - before))
"""


def test_a_plan_takes_memory_for_what_was_visited_and_not_for_all_steps_states_and_actions():
    """One array of that size would have 384 MB here. The table of nodes may have four bytes for each step and state, 49 MB."""
    done = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert json.loads(done.stdout) < 150

"""Nonsense in place of structures, rewards, terms, constraints, automata and goals is a ValueError of one sentence."""

import numpy as np
import pytest

import anyreward as ar

HUGE = 10**309  # too large for a float
NONSENSE = [
    None, 3, -1, 2.5, float("nan"), True, "x", "", b"x", [], {}, (), object(), lambda: 1, lambda *a: None, lambda *a: 1 / 0, HUGE,
    -HUGE, [HUGE] * 5, np.array([None] * 5), np.zeros(5, complex), np.array(5.0), np.zeros(0), [[1], [2, 3]], {"a": HUGE}, [None],
    1j, type, slice(3), [[]], "9" * 309, ["state == 1", HUGE], np.datetime64("2026-01-01"),
]  # fmt: skip
LAWS = {"law": lambda s, a: a, "outcomes": (-1, 1), "successor": lambda s, a, x: min(max(s + x, 0), 4)}
SIZES = {"n_states": 5, "n_actions": 2, "horizon": 4, "initial_state": 2}
MACHINE = {"size": 2, "step": lambda q, s: q, "accepting": [1]}


@pytest.fixture(scope="module")
def atlas():
    return ar.explore(ar.envs.double_chain(length=5), 4, max_episodes=30, stationary=True)


def declared(**changed):
    return ar.Setting(**SIZES, structure=ar.Structure(**{**LAWS, **changed}))


def parts(**changed):
    return ar.Factored(**{"sizes": (2, 2), "n_actions": 2, "horizon": 3, "start": (0, 0), **changed})


def goal(atlas, **changed):
    return atlas.reach(ar.Automaton(**{**MACHINE, **changed}))


GIVEN = {
    "a file": lambda atlas, x: ar.load(x),
    "a path": lambda atlas, x: atlas.export(x if not isinstance(x, str) else None),
    "a structure": lambda atlas, x: ar.Setting(**SIZES, structure=x),
    "a structure of counts": lambda atlas, x: ar.certify(atlas.counts, structure=x),
    "law": lambda atlas, x: declared(law=x),
    "outcomes": lambda atlas, x: declared(outcomes=x),
    "successor": lambda atlas, x: declared(successor=x),
    "outcome": lambda atlas, x: declared(outcome=x),
    "known": lambda atlas, x: declared(known={0: x}),
    "parts": lambda atlas, x: ar.Structure.factored(x),
    "parents": lambda atlas, x: ar.Structure.factored((2, 2), parents=[x, [1]]),
    "many parts": lambda atlas, x: parts(sizes=x),
    "a law of many parts": lambda atlas, x: parts(law=x),
    "a quota": lambda atlas, x: parts().counts({(0, (0,), 0): x}),
    "actions of many parts": lambda atlas, x: parts().counts().add(np.zeros((1, 4, 2), int), x),
    "a reward": lambda atlas, x: atlas.plan(x),
    "a range": lambda atlas, x: atlas.plan("state == 1", reward_range=x),
    "a policy": lambda atlas, x: atlas.evaluate(x, "state == 1"),
    "rewards": lambda atlas, x: ar.explore(ar.envs.double_chain(length=5), 4, rewards=[x], max_episodes=2),
    "a term": lambda atlas, x: atlas.plan(ar.term("a", x)),
    "the name of a term": lambda atlas, x: atlas.plan(ar.term(x, "state == 1")),
    "a factor": lambda atlas, x: atlas.plan(x * ar.term("a", "state == 1")),
    "a divisor": lambda atlas, x: atlas.plan(ar.term("a", "state == 1") / x),
    "a summand": lambda atlas, x: atlas.plan(ar.term("a", "state == 1") + x),
    "a difference": lambda atlas, x: atlas.plan(x - ar.term("a", "state == 1")),
    "constraints": lambda atlas, x: atlas.plan("state == 1", subject_to=x),
    "a cost": lambda atlas, x: atlas.plan("state == 1", subject_to=[(x, "<=", 3.0)]),
    "a limit": lambda atlas, x: atlas.plan("state == 1", subject_to=[("state == 2", "<=", x)]),
    "a goal": lambda atlas, x: atlas.reach(x),
    "avoided": lambda atlas, x: atlas.avoid(x),
    "memories": lambda atlas, x: goal(atlas, size=x),
    "steps": lambda atlas, x: goal(atlas, step=x),
    "accepting": lambda atlas, x: goal(atlas, accepting=x),
    "pays": lambda atlas, x: goal(atlas, pays=x),
    "the first memory": lambda atlas, x: goal(atlas, start=x),
}


@pytest.mark.parametrize("what", GIVEN)
def test_nonsense_is_a_sentence(atlas, what):
    refused = 0
    for nonsense in NONSENSE:
        try:
            GIVEN[what](atlas, nonsense)
        except FileNotFoundError:
            continue  # a name of a file
        except ValueError as problem:
            text, refused = str(problem), refused + 1
            assert text.endswith("."), text
    assert refused > 5


def test_numbers_of_numpy_and_sums_still_make_terms(atlas):
    one, two = ar.term("a", "state == 1"), ar.term("b", "state == 2")
    assert atlas.plan(np.float64(0.5) * one) == atlas.plan(0.5 * one)
    assert atlas.plan(np.int64(2) * one - two / 4, reward_range=(-0.25, 2.0)).value == pytest.approx(
        atlas.plan(sum([one, one]) - 0.25 * two, reward_range=(-0.25, 2.0)).value
    )

"""Counts of shared laws, against plain loops; data that are impossible; the same data with and without a structure.

It watches `docs/theory.md`, 15.1.
"""

import itertools

import numpy as np
import pytest

import anyreward as ar

from ..helpers.structures import chain, plant, plant_model, queue, queue_after, slow_law_counts, walk, walk_model


def episodes(mdp, H, n, seed=0):
    rng = np.random.default_rng(seed)
    return mdp.play_each(rng.integers(0, mdp.n_actions, (n, H, mdp.n_states)), rng)


def queue_model(room, arrival=0.4, service=0.5):
    P = np.zeros((2 * room + 2, 1, 2 * room + 2))
    for s, x, y in itertools.product(range(2 * room + 2), (0, 1), (0, 1)):
        P[s, 0, queue_after(room, s, x, y)] += (arrival if x else 1 - arrival) * (service if y else 1 - service)
    return ar.TabularMDP(P, initial=0)


def law_of(seen, outcomes):
    """The frequencies of outcomes, from how often each was seen; uniform if none was."""
    n = sum(seen.values())
    return {x: seen.get(x, 0) / n if n else 1 / len(outcomes) for x in outcomes}


def one_draw(law, outcomes, ahead):
    return lambda s, a: ([(law(s, a), outcomes)], lambda x: ahead(s, a, x[0]))


def plant_of(s, a):
    levels = np.unravel_index(s, (4, 4, 4))
    draws = [(((int(v),), a == i + 1), range(4)) for i, v in enumerate(levels)]
    return draws, lambda x: int(np.ravel_multi_index(x, (4, 4, 4)))


def queue_of(s, a):
    return [("arrival", (0, 1)), ("service", (0, 1))], lambda x: queue_after(3, s, *x)


CASES = {
    "chain": (chain(), lambda: ar.envs.double_chain(), one_draw(lambda s, a: a, (-1, 1), lambda s, a, x: min(max(s + x, 0), 30))),
    "walk": (walk(5), lambda: walk_model(5), one_draw(lambda s, a: "step", (-1, 0, 1), lambda s, a, x: min(max(s + x, 0), 4))),
    "plant": (plant(), plant_model, plant_of),
    "queue": (queue(3), lambda: queue_model(3), queue_of),
}


@pytest.mark.parametrize("name", CASES)
def test_counts_and_probabilities_against_plain_loops(name):
    structure, model, of = CASES[name]
    mdp, H = model(), 6
    start = int(np.argmax(mdp.initial))
    setting = ar.Setting(n_states=mdp.n_states, n_actions=mdp.n_actions, horizon=H, initial_state=start, structure=structure)
    counts = ar.Counts.from_episodes(*episodes(mdp, H, 40), setting)
    slow, p_hat = slow_law_counts(of, counts.columns())
    laws, t = setting.structure, counts.shared.tables
    fast = {}
    for pair in range(len(laws.law_of)):
        s, a = divmod(pair, mdp.n_actions)
        for (law, outcomes), g in zip(of(s, a)[0], laws.law_of[pair], strict=True):
            seen = counts.shared.seen[t.offset[g] : t.offset[g + 1]]
            fast[law] = {x: n for x, n in zip(outcomes, seen.astype(int).tolist(), strict=True) if n}
    assert {law: n for law, n in fast.items() if n} == slow
    model = counts.model()
    V = np.random.default_rng(1).random(mdp.n_states)
    expected = model.expect(0, V)
    table = counts.model_table
    for s, a in itertools.product(range(mdp.n_states), range(mdp.n_actions)):
        p = p_hat(s, a)
        row = (1 + s) * mdp.n_actions + a
        assert (table.n[row] == 0) == (p is None)
        if p is not None:
            assert expected[s, a] == pytest.approx(sum(q * V[then] for then, q in p.items()), abs=1e-12)
            edges = slice(int(table.first[row]), int(table.first[row] + table.size[row]))
            found = dict(zip(table.state[table.target[edges]].tolist(), table.seen[edges].tolist(), strict=True))
            assert found == pytest.approx(p, abs=1e-12)
        else:
            draws, successor = of(s, a)  # of laws that are uniform as long as they have no data
            each = [law_of(slow.get(law, {}), outcomes) for law, outcomes in draws]
            together = itertools.product(*(q.items() for q in each))
            total = sum(np.prod([q for _, q in xs]) * V[successor(tuple(x for x, _ in xs))] for xs in together)
            assert expected[s, a] == pytest.approx(total)


def test_a_pair_that_was_never_visited_has_the_estimate_of_its_law():
    setting = ar.Setting(n_states=31, n_actions=2, horizon=4, initial_state=15, structure=chain())
    counts = ar.Counts(setting)
    counts.add_flows(np.array([[0, 15, 0, 14, 3], [0, 15, 0, 16, 1]]))
    V = np.arange(31.0)
    assert counts.model().expect(0, V)[20, 0] == pytest.approx(0.75 * 19 + 0.25 * 21)
    assert counts.model().expect(0, V)[20, 1] == 0.5 * 19 + 0.5 * 21  # no data of its law: uniform over its outcomes


@pytest.mark.parametrize("how", ["tell", "flows", "with_structure"])
def test_impossible_transitions_are_refused(how):
    plain = ar.Setting(n_states=31, n_actions=2, horizon=2, initial_state=15, stationary=True)
    states, actions = np.array([[15, 17, 18]]), np.array([[0, 0]])
    setting = ar.Setting(n_states=31, n_actions=2, horizon=2, initial_state=15, structure=chain())

    def certify():
        if how == "tell":
            return ar.certify(ar.Counts.from_episodes(states, actions, setting))
        if how == "with_structure":
            return ar.certify(ar.Counts.from_episodes(states, actions, plain), structure=chain())
        counts = ar.Counts(setting)
        counts.add_flows(np.array([[0, 15, 0, 17, 1]]))
        return ar.certify(counts)

    with pytest.raises(ValueError, match="from state 15 with action 0 to state 17, which the structure says is impossible"):
        certify()


def test_data_can_be_given_a_structure_afterwards():
    mdp, H = ar.envs.double_chain(), 20
    states, actions = episodes(mdp, H, 200)
    by_step = ar.Counts.from_episodes(states, actions, ar.Setting(n_states=31, n_actions=2, horizon=H, initial_state=15))
    setting = ar.Setting(n_states=31, n_actions=2, horizon=H, initial_state=15, structure=chain())
    declared = ar.Counts.from_episodes(states, actions, setting)
    assert by_step.with_structure(chain()) == declared
    assert ar.certify(by_step, structure=chain()) == ar.certify(declared)
    flat = ar.Counts.from_episodes(
        states, actions, ar.Setting(n_states=31, n_actions=2, horizon=H, initial_state=15, stationary=True)
    )
    assert declared.with_structure(None) == flat
    assert ar.certify(declared).epsilon < 0.2 * ar.certify(flat).epsilon
    step_dependent = ar.Structure(law=lambda h, s, a: (h, a), outcomes=(-1, 1), successor=lambda s, a, x: min(max(s + x, 0), 30))
    with pytest.raises(ValueError, match="pooled over the steps"):
        flat.with_structure(step_dependent)
    assert len(by_step.with_structure(step_dependent).setting.structure.sizes) == 40


def test_laws_of_each_step_estimate_each_step():
    """A structure in which nothing is shared, with laws of (h, s, a), has the empirical model of the counts themselves."""
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(3), (4, 3, 2))
    mdp = ar.TabularMDP(P, initial=0)
    apart = ar.Structure(law=lambda h, s, a: (h, s, a), outcomes=3, successor=lambda s, a, x: x)
    setting = ar.Setting(n_states=3, n_actions=2, horizon=4, initial_state=0, structure=apart)
    plain = ar.Setting(n_states=3, n_actions=2, horizon=4, initial_state=0)
    data = episodes(mdp, 4, 60)
    one, two = ar.Counts.from_episodes(*data, setting), ar.Counts.from_episodes(*data, plain)
    V = rng.random(3)
    for h in range(4):
        np.testing.assert_allclose(one.model().expect(h, V), two.model().expect(h, V), atol=1e-12)
    bound = ar.certify(two, joint=False, transfer=False, max_successors=3).epsilon  # the same thresholds and the same laws
    assert ar.certify(one).epsilon == pytest.approx(bound, rel=1e-9)


def test_nothing_shared_is_the_flat_certificate():
    """One law a pair, all states as outcomes: certificate, plans and intervals are those of a stationary setting."""
    rng = np.random.default_rng(3)
    mdp = ar.TabularMDP(rng.dirichlet(np.ones(4), (4, 2)), initial=0)
    apart = ar.Structure(law=lambda s, a: (s, a), outcomes=4, successor=lambda s, a, x: x)
    data = episodes(mdp, 5, 300)
    one = ar.Counts.from_episodes(*data, ar.Setting(n_states=4, n_actions=2, horizon=5, initial_state=0, structure=apart))
    two = ar.Counts.from_episodes(*data, ar.Setting(n_states=4, n_actions=2, horizon=5, initial_state=0, stationary=True))
    certificates = ar.certify(one), ar.certify(two, max_successors=4)
    assert certificates[0].epsilon == pytest.approx(certificates[1].epsilon, rel=1e-9)
    reward = rng.random((4, 2))
    plans = [ar.Atlas(c, certificate).plan(reward) for c, certificate in zip((one, two), certificates, strict=True)]
    np.testing.assert_array_equal(plans[0].policy, plans[1].policy)
    for name in ("lower", "value", "upper"):
        assert getattr(plans[0], name) == pytest.approx(getattr(plans[1], name), rel=1e-7)


def test_known_laws_are_not_estimated():
    known = ar.Structure(
        law=lambda s, a: a, outcomes=(-1, 1), successor=lambda s, a, x: min(max(s + x, 0), 30), known={0: {-1: 0.9, 1: 0.1}}
    )
    setting = ar.Setting(n_states=31, n_actions=2, horizon=20, initial_state=15, structure=known)
    counts = ar.Counts.from_episodes(*episodes(ar.envs.double_chain(), 20, 100), setting)
    assert counts.model().expect(0, np.arange(31.0))[20, 0] == pytest.approx(0.9 * 19 + 0.1 * 21)
    both = {0: (0.9, 0.1), 1: (0.1, 0.9)}
    all_known = ar.Structure(law=lambda s, a: a, outcomes=(-1, 1), successor=lambda s, a, x: min(max(s + x, 0), 30), known=both)
    given = ar.certify(counts, structure=all_known)
    assert given.epsilon == 0.0
    assert "2 laws, 2 of them known" in given.assumptions[0]
    plan = ar.Atlas(counts.with_structure(all_known), given).plan(ar.envs.double_chain().reward)
    best = ar.backward_induction(ar.envs.double_chain(), ar.envs.double_chain().reward, 20).V[0, 15]
    assert plan.lower == pytest.approx(best, abs=1e-9)
    assert plan.upper == pytest.approx(best, abs=1e-9)

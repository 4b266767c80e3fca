"""The loop from episodes to a certified atlas: when it ends, what it leaves, what it refuses."""

from math import ceil

import numpy as np
import pytest

import anyreward as ar
from anyreward.algorithms import Explorer

from ..helpers.problems import random_mdp, rows

PAPER = {"algorithm": "rf-ucrl", "bounds": "paper"}


def small_problem():
    """Two states, so that a thousand episodes say something."""
    return random_mdp(2, 2, seed=3)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [{}, {"stationary": True}, {"discount": 0.6}, {"clip": False}], ids=["plain", "pooled", "discounted", "free"]
)
def test_the_run_ends_at_the_first_episode_that_certifies(options):
    """Replayed with ask and tell, looking at the bound after every episode."""
    mdp, epsilon = small_problem(), 1.2
    atlas = ar.explore(mdp, 3, epsilon, 0.2, **PAPER, replan="every", seed=5, **options)
    setting = mdp.setting(3, options.get("discount", 1.0), options.get("stationary", False))
    explorer = ar.RFUCRL(setting, delta=0.2, bounds="paper", replan="every", seed=5, clip=options.get("clip", True))
    rng = np.random.default_rng(5)
    while explorer.error_bound > epsilon / 2:
        explorer.tell(*mdp.rollout(explorer.ask(), seed=rng))
    assert atlas.episodes == explorer.episodes > 100
    assert rows(atlas.counts) == rows(explorer.counts)
    assert atlas.certificate.met
    assert atlas.error_bound == explorer.error_bound <= epsilon / 2


@pytest.mark.parametrize("replan", ["path", "geometric"])
def test_a_lazy_schedule_ends_soon_after(replan):
    """Never before the bound is there; and a look comes every 3%, so with a known policy not long after either."""
    mdp = small_problem()
    exact = ar.explore(mdp, 3, 1.2, 0.2, **PAPER, replan="every")
    lazy = ar.explore(mdp, 3, 1.2, 0.2, **PAPER, replan=replan)
    assert lazy.certificate.met
    assert lazy.error_bound <= 0.6
    assert lazy.episodes < 1.2 * exact.episodes
    before, after = lazy.history[-2:]
    assert before[1] > 1.2 >= after[1]


@pytest.mark.parametrize("replan", ["every", "path", "geometric"])
def test_max_episodes_may_come_first(replan):
    mdp = small_problem()
    atlas = ar.explore(mdp, 3, 0.1, **PAPER, max_episodes=137, replan=replan)
    assert atlas.episodes == atlas.certificate.episodes == atlas.counts.episodes == 137
    assert not atlas.certificate.met
    assert atlas.certificate.target == 0.1
    assert atlas.certificate.check(atlas.counts)
    plan = atlas.plan(mdp.reward)
    assert plan.policy.shape == (3, 2)
    assert 0 <= plan.lower <= plan.value <= plan.upper <= 3


def test_max_episodes_alone():
    atlas = ar.explore(small_problem(), 3, **PAPER, max_episodes=10)
    assert atlas.episodes == 10
    assert not atlas.certificate.met
    assert atlas.certificate.target is None


def test_no_episodes_at_all():
    atlas = ar.explore(small_problem(), 3, **PAPER, max_episodes=0)
    assert atlas.episodes == 0
    assert atlas.error_bound == pytest.approx(2.0, rel=1e-10)  # gamma sigma_{H-1}


def test_an_epsilon_that_holds_without_data():
    atlas = ar.explore(small_problem(), 3, epsilon=4.0 + 1e-9, **PAPER)
    assert atlas.episodes == 0
    assert atlas.certificate.met


def looks(max_episodes, growth=1.03):
    t = 0
    while t < max_episodes:
        yield t
        t = min(max_episodes, max(t + 1, ceil(t * growth)))
    yield t


@pytest.mark.parametrize("horizon", [1, 3])
@pytest.mark.parametrize("replan", ["every", "path", "geometric"])
def test_the_certificate_is_looked_at_every_3_percent(horizon, replan):
    """Also where it is met from the start: without a target there is no reason to look after every episode."""
    atlas = ar.explore(small_problem(), horizon, **PAPER, max_episodes=500, replan=replan)
    assert [t for t, _ in atlas.history] == list(looks(500))
    assert atlas.history[-1][1] == atlas.certificate.epsilon


@pytest.mark.parametrize(
    ("horizon", "share", "options"),
    [
        (6, 0.4, {}),
        (6, 0.2, {"stationary": True}),
        (10, 0.4, {"replan": "geometric"}),
        (6, 0.3, {"algorithm": "opt-qlearning", "stationary": True}),  # its bound falls all at once, now and then
        (6, 0.5, {"algorithm": "random", "deterministic": True}),
    ],
)
def test_looks_that_wait_miss_nothing(monkeypatch, horizon, share, options):
    """With the looks that are left out it ends at the same episode, and the looks that are left are among them."""
    mdp = ar.envs.double_chain(length=7, fail_prob=0.0 if "deterministic" in options else 0.1)

    def explored():
        return ar.explore(mdp, horizon, share * horizon, max_episodes=60_000, progress=False, **options)

    fewer = explored()
    monkeypatch.setattr(Explorer, "looks_can_wait", False)
    every = explored()
    assert every.certificate.met
    assert fewer.counts.digest() == every.counts.digest()
    assert fewer.certificate == every.certificate
    assert set(fewer.history) <= set(every.history)
    assert 2 * len(fewer.history) < len(every.history)


def test_progress_is_reported_at_every_look():
    reports = []
    atlas = ar.explore(small_problem(), 3, **PAPER, max_episodes=50, progress=lambda *report: reports.append(report))
    assert tuple(reports) == atlas.history


@pytest.mark.parametrize("progress", [None, False])
def test_nothing_is_printed_unasked(progress, capfd):
    ar.explore(small_problem(), 3, **PAPER, max_episodes=5)  # whatever has to be compiled is compiled now
    capfd.readouterr()
    ar.explore(small_problem(), 3, **PAPER, max_episodes=50, progress=progress)
    assert capfd.readouterr() == ("", "")


def test_progress_on_demand_goes_to_stderr(capfd):
    ar.explore(small_problem(), 3, 1.0, **PAPER, max_episodes=50, progress=True)
    out, err = capfd.readouterr()
    assert out == ""
    assert "episodes" in err


@pytest.mark.parametrize("replan", ["every", "path", "geometric"])
def test_the_same_seed_gives_the_same_atlas(replan):
    mdp = random_mdp(5, 3, seed=0, random_start=True)
    one, again, other = (ar.explore(mdp, 4, **PAPER, max_episodes=200, seed=seed, replan=replan) for seed in (1, 1, 2))
    assert one == again
    assert rows(one.counts) != rows(other.counts)


def test_a_start_that_is_certain_costs_nothing():
    """A distribution on one state is a known start: the very same run."""
    P = random_mdp(3, 2, seed=0).dense()
    models = ar.TabularMDP(P, initial=1), ar.TabularMDP(P, initial=[0.0, 1.0, 0.0])
    known, certain = (ar.explore(mdp, 3, 3.0, **PAPER, seed=1) for mdp in models)
    assert known == certain


@pytest.mark.parametrize(
    "mdp",
    [
        ar.TabularMDP([[[1.0]]]),
        random_mdp(4, 1, seed=0),
        ar.TabularMDP(np.eye(3)[:, None][:, [0, 0]], initial=[0.2, 0.3, 0.5]),  # nobody ever moves
        random_mdp(40, 2, seed=0),  # dense rows, more than 16 successors
        ar.TabularMDP.from_sparse((np.arange(50_000) + 1).reshape(-1, 1, 1) % 50_000, np.ones((50_000, 1, 1))),
    ],
    ids=["one state", "one action", "no moves", "dense", "a ring of 50,000"],
)
@pytest.mark.parametrize("replan", ["every", "path", "geometric"])
@pytest.mark.parametrize("stationary", [False, True])
def test_extreme_problems(mdp, replan, stationary):
    """Every episode is counted, walkers are conserved at every step, and the certificate follows from the counts."""
    for horizon in (1, 2, 5):
        atlas = ar.explore(mdp, horizon, **PAPER, max_episodes=60, replan=replan, stationary=stationary)
        assert atlas.episodes == 60
        assert atlas.counts.transitions == 60 * horizon
        if not stationary:
            np.testing.assert_array_equal(atlas.counts.n().sum(axis=(1, 2)), 60)
        assert atlas.certificate.check(atlas.counts)


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ({}, "neither epsilon nor max_episodes nor max_seconds is given"),
        ({"epsilon": 0.0}, "epsilon is 0.0: it has to be positive"),
        ({"epsilon": -1.0}, "epsilon is -1.0"),
        ({"epsilon": float("nan")}, "epsilon is nan"),
        ({"epsilon": 1.0, "delta": 0.0}, "delta is 0.0"),
        ({"epsilon": 1.0, "delta": 1.0}, "delta is 1.0"),
        ({"epsilon": 1.0, "delta": float("nan")}, "delta is nan"),
        ({"max_episodes": -1}, "max_episodes is -1"),
        ({"max_episodes": 1.5}, "max_episodes is 1.5"),
        ({"epsilon": 1.0, "horizon": 0}, "horizon is 0"),
        ({"epsilon": 1.0, "horizon": 2.5}, "horizon is 2.5"),
        ({"epsilon": 1.0, "discount": 0.0}, "discount is 0.0"),
        ({"epsilon": 1.0, "discount": 1.1}, "discount is 1.1"),
        ({"epsilon": 1.0, "algorithm": "magic"}, "algorithm is 'magic': it has to be one of"),
        ({"epsilon": 1.0, "algorithm": dict}, "algorithm is <class 'dict'>"),
        ({"epsilon": 1.0, "bounds": "loose"}, "bounds is 'loose'"),
        ({"epsilon": 1.0, "env": "Frozen Puddle"}, "the environment 'Frozen Puddle' cannot be made"),
        ({"epsilon": 1.0, "env": 3}, "env is a int"),
        ({"epsilon": 1.0, "replan": "never"}, "replan is 'never'"),
    ],
)
def test_what_is_refused(arguments, names):
    arguments = {"env": small_problem(), "horizon": 3, **arguments}
    with pytest.raises(ValueError, match=names):
        ar.explore(**arguments)


@pytest.mark.parametrize("seed", [None, 1.5, -1, "1", [1, 2]])
def test_a_bad_seed_is_refused_before_anything_is_played(seed):
    """Not when the exploration is over and its source is written down."""
    looks = []
    with pytest.raises(ValueError, match="seed"):
        ar.explore(small_problem(), 3, **PAPER, max_episodes=5, seed=seed, progress=lambda *look: looks.append(look))
    assert looks == []


def test_a_step_dependent_model_is_not_pooled():
    with pytest.raises(ValueError, match="stationary is True but"):
        ar.explore(random_mdp(2, 2, seed=0, H=3), 3, 1.0, stationary=True)


def test_an_unknown_option_is_not_swallowed():
    with pytest.raises(ValueError, match="replam"):
        ar.explore(small_problem(), 3, 1.0, **PAPER, replam="every")

"""Five rewards in mind: how many episodes for these, for each alone, and for every reward; and when cautious plans pay.

Three problems with five rewards each: the double chain, a plant of three machines that wear alike (its structure is declared),
and Gymnasium's Taxi, as a model, of which is known what its documentation says: moves are deterministic, and where rides start.

The first table has the episodes until each of the five rewards has a plan that is certain to be epsilon-optimal: explored for
them (`explore(rewards=...)`); by reward-free exploration that is stopped by the same criterion; for all their mixtures (the chain
only); by five runs of BPI-UCRL, one for each reward, added up, and the longest of them; and until reward-free exploration
certifies every reward.

The second table has plans from fewer episodes, reward-free and for the five rewards: how far from optimal the plans really are,
which the true model tells, on average over rewards and seeds and in the worst case, for plain and for cautious plans; and how
much more the cautious plans are guaranteed to earn than the plain ones.

    python benchmarks/given_rewards.py            # about ten minutes; --quick: one seed, without mixtures
"""

import sys
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from five_minutes import plant, plant_structure

import anyreward as ar
from anyreward.algorithms import make_explorer
from anyreward.certificates.bounds import TightBound
from anyreward.certificates.given import GivenBounds
from anyreward.environments.tabular import play
from anyreward.rewards.given import given_rewards

H, DELTA = 20, 0.1
SEEDS = (1, 2, 3)


class Problem(NamedTuple):
    """A model, what is known of it, five rewards, epsilon, and numbers of episodes that are few."""

    mdp: ar.TabularMDP
    known: dict[str, Any]
    rewards: list[np.ndarray]
    epsilon: float
    few: tuple[int, ...]
    mixed: bool = False  # whether all mixtures are explored for as well, which takes minutes of planning elsewhere


def chain() -> Problem:
    """Rewards at five places of the double chain."""
    places = [np.eye(31)[s] for s in (0, 8, 15, 22, 30)]
    return Problem(ar.envs.double_chain(), {"stationary": True}, places, 2.0, (30, 300, 3_000), True)


def machines() -> Problem:
    """Output; all machines as new; none worn out; the first machine running well; no services."""
    mdp, levels = plant(), np.stack(np.unravel_index(np.arange(64), (4, 4, 4)), axis=1)
    pairs = np.broadcast_to(np.arange(4) == 0, (64, 4)).astype(float)
    wanted = [(levels == 0).all(axis=1), (levels < 3).all(axis=1), levels[:, 0] <= 1]
    rewards = [mdp.reward, *(each.astype(float) for each in wanted), pairs]
    return Problem(mdp, {"structure": plant_structure()}, rewards, 1.0, (3, 30, 300))


def taxi() -> Problem:
    """Delivered; the passenger aboard; the taxi at each of three of the landmarks."""
    env = gymnasium.make("Taxi-v3").unwrapped
    S, A = 500, 6
    P = np.zeros((S + 1, A, S + 1))
    P[S, :, S] = 1.0
    for s, actions in env.P.items():  # type: ignore[attr-defined]
        for a, outcomes in actions.items():
            for p, then, _, end in outcomes:
                P[s, a, S if end else then] += p
    start = np.append(env.initial_state_distrib, 0.0)  # type: ignore[attr-defined]
    place, aboard = np.arange(S) // 20, np.arange(S) // 4 % 5 == 4
    wanted = [np.arange(S + 1) == S, *(np.append(each, False) for each in (aboard, place == 0, place == 4, place == 20))]
    known = {"stationary": True, "deterministic": True, "initial": start, "absorbing_states": (S,)}
    rewards = [each.astype(float) for each in wanted]
    return Problem(ar.TabularMDP(P, initial=start), known, rewards, 1.0, (100, 300, 1_000))


PROBLEMS = {"chain": chain, "plant": machines, "Taxi": taxi}


def explored(problem: Problem, seed: int, **how: Any) -> ar.Atlas:
    return ar.explore(problem.mdp, H, delta=DELTA, seed=seed, progress=False, **{**problem.known, **how})


def reward_free(problem: Problem, seed: int) -> int:
    """Episodes of reward-free exploration until the five rewards have plans that are good enough, looked at every 3%."""
    known = dict(problem.known)
    setting = explored(problem, seed, max_episodes=0).counts.setting
    successors = 1 if known.get("deterministic") else None
    explorer = make_explorer("rf-trajectory", setting, {"delta": DELTA, "seed": seed, "max_successors": successors})
    given, rng = given_rewards(problem.rewards, setting), np.random.default_rng(seed)
    bound = TightBound(max_successors=successors, joint=False, transfer=False)
    look = 1
    while True:
        while explorer.episodes < look:
            play(explorer, problem.mdp, rng, look - explorer.episodes)
        if GivenBounds(explorer.counts, bound, DELTA, given, (0.0, 1.0)).epsilon <= problem.epsilon:
            return explorer.episodes
        look = max(look + 1, int(np.ceil(1.03 * look)))


def first_table(quick: bool) -> None:
    print("| | ε | for the five | reward-free, same stop | all mixtures | five runs, added | the longest | every reward |")
    print("|---|---|---|---|---|---|---|---|")
    for name, make in PROBLEMS.items():
        problem, rows = make(), []
        for seed in SEEDS[:1] if quick else SEEDS:
            began, how = time.process_time(), {"epsilon": problem.epsilon}
            for_five = explored(problem, seed, rewards=problem.rewards, **how).episodes
            mixed = np.nan
            if problem.mixed and not quick:
                mixed = explored(problem, seed, rewards=problem.rewards, mixtures=True, **how).episodes
            single = [explored(problem, seed, algorithm="bpi-ucrl", reward=r, **how).episodes for r in problem.rewards]
            every = explored(problem, seed, **how).episodes
            rows.append((for_five, reward_free(problem, seed), mixed, sum(single), max(single), every))
            print(f"{name}, seed {seed}: {time.process_time() - began:.0f} s, {rows[-1]}", file=sys.stderr)
        cells = ["–" if np.isnan(x) else f"{x:,.0f}" for x in np.mean(rows, axis=0)]
        print(f"| {name} | {problem.epsilon:g} | {' | '.join(cells)} |", flush=True)


def plans(problem: Problem, atlas: ar.Atlas) -> Iterator[tuple[float, float, float]]:
    """For each reward the true regret of the plain and the cautious plan, and how much more the second is guaranteed."""
    for reward in problem.rewards:
        best = float(problem.mdp.initial @ ar.backward_induction(problem.mdp, reward, H).V[0])
        made = [atlas.plan(reward, cautious=cautious) for cautious in (False, True)]
        earned = [float(problem.mdp.initial @ ar.evaluate_policy(problem.mdp, plan.policy, reward, H).V[0]) for plan in made]
        yield best - earned[0], best - earned[1], made[1].lower - made[0].lower


def second_table(quick: bool) -> None:
    print("| | data | episodes | regret, plain (worst) | regret, cautious (worst) | guaranteed more |")
    print("|---|---|---|---|---|---|")
    for name, make in PROBLEMS.items():
        problem = make()
        for data, how in {"reward-free": {}, "for the five": {"rewards": problem.rewards}}.items():
            for episodes in problem.few:
                atlases = [explored(problem, seed, max_episodes=episodes, **how) for seed in (SEEDS[:1] if quick else SEEDS)]
                plain, cautious, more = np.array([row for atlas in atlases for row in plans(problem, atlas)]).T
                cells = [f"{x.mean():.3f} ({x.max():.3f})" for x in (plain, cautious)]
                print(f"| {name} | {data} | {episodes:,} | {' | '.join(cells)} | {more.mean():.3f} |", flush=True)


if __name__ == "__main__":
    first_table("--quick" in sys.argv)
    print()
    second_table("--quick" in sys.argv)

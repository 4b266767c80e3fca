"""Rewards that are given: explore for three goals and all their mixtures, look at what is uncertain, and go on.

A robot on a corridor slips now and then. Three places may have to be reached, and how much each of them is worth is still to be
negotiated. Run it with `python examples/given_rewards.py`.
"""

import numpy as np

import anyreward as ar

PLACES, H = 15, 12
corridor = ar.envs.double_chain(length=PLACES, fail_prob=0.2)
# All places are alike: one law for each action, but at the walls, where a step ahead is none.
slips = ar.Structure(law=lambda s, a: a, outcomes=(-1, 1), successor=lambda s, a, x: min(max(s + x, 0), PLACES - 1))
goals = ["state == 0", f"state == {PLACES - 1}", "state == 7"]

atlas = ar.explore(corridor, H, epsilon=1.0, rewards=goals, structure=slips, progress=False)
print(f"For three goals: {atlas.episodes} episodes, epsilon {atlas.certificate.epsilon:.3f}.")
mixed = atlas.extend(corridor, epsilon=0.8, rewards=goals, mixtures=True, progress=False)
print(f"For all their mixtures: {mixed.episodes} episodes, epsilon {mixed.certificate.epsilon:.3f}.")

worth = np.array([0.5, 0.3, 0.2])  # agreed upon in the end
reward = worth @ np.eye(PLACES)[[0, PLACES - 1, 7]]
plan = mixed.plan(reward)
truth = ar.backward_induction(corridor, reward, H).V[0] @ corridor.initial
print(f"The plan for the agreed weights: between {plan.lower:.3f} and {plan.upper:.3f}; the optimum is really {truth:.3f}.")

why = mixed.explain(reward)
print(f"\n{why}")
longer = mixed.extend(corridor, max_episodes=int(why.episodes_to_halve), rewards=[reward], progress=False)
narrow = longer.plan(reward)
print(f"After {longer.episodes} episodes: between {narrow.lower:.3f} and {narrow.upper:.3f}.")

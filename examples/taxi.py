"""Gymnasium's Taxi: explore it, plan for its own reward, act, and compare with the truth, which its table tells.

Its documentation says that every move is deterministic, that a ride ends with the drop-off, and that rides start in 300 states,
all equally likely. These are assumptions, which are stated here, checked on all data and printed with every certificate. Run it
with `python examples/taxi.py`.
"""

import warnings

import gymnasium
import numpy as np

import anyreward as ar

warnings.filterwarnings("ignore", message=".*out of date.*")
TAXI = "Taxi-v3"
H = 20
env = gymnasium.make(TAXI, max_episode_steps=H + 1)
starts = env.unwrapped.initial_state_distrib
known = {"deterministic": True, "stationary": True, "terminal": "state", "initial": starts}
atlas = ar.explore(env, H, epsilon=0.01, max_episodes=20_000, seed=1, progress=False, **known)
print(f"Explored {atlas.episodes:,} episodes: {int((atlas.counts.n() > 0).sum()):,} of the 3,000 state-action pairs were seen.")
print("Assumed:", "; ".join(atlas.certificate.assumptions))

own = {"reward_range": (-10.0, 20.0), "rewards": "deterministic", "stationary_rewards": True}
plan = atlas.plan("own", **own)
print(f"\nThe plan for what Taxi pays is worth {plan.value:.3f}; with probability 0.9 the optimum is at most {plan.upper:.3f}")
print(f"and the plan earns at least {plan.lower:.3f}.")

table = env.unwrapped.P  # the truth: transitions and rewards of every state and action
S, A = env.observation_space.n, env.action_space.n
V, best = np.zeros((H + 1, S)), np.zeros((H, S), int)
for h in reversed(range(H)):
    Q = np.array([[sum(p * (r + (not end) * V[h + 1, s2]) for p, s2, r, end in table[s][a]) for a in range(A)] for s in range(S)])
    V[h], best[h] = Q.max(axis=1), Q.argmax(axis=1)
truth = float(starts @ V[0])
print(f"The table of Taxi says that the optimum is {truth:.3f}.")

found = atlas.verify(plan, env, episodes=1_000, progress=False)
print(f"1,000 fresh episodes: {found.value:.3f} on average, certainly between {found.lower:.3f} and {found.upper:.3f}.")

print("\nOne ride:")
observation, info = env.reset(seed=3)
total = 0.0
for step in range(H):
    action = plan.act(observation, step)
    observation, reward, terminated, truncated, info = env.step(action)
    total += reward
    print(f"  {step:2}  {atlas.action_name(action):8}  {reward:+.0f}")
    if terminated:
        break
print(f"  earned {total:+.0f}")

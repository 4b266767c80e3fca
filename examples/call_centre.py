"""A simulator in plain Python, wrapped in fifteen lines: how many agents should answer the phones, hour by hour?

Run it with `python examples/call_centre.py`.
"""

import random

import gymnasium

import anyreward as ar

ROOM, AGENTS, HOURS = 12, 4, 12  # callers that can wait; agents that can be on duty; hours of a day


class CallCentre:
    """Somebody's simulator: knows nothing of this library. Three callers an hour come on average; an agent serves one or two."""

    def __init__(self, seed):
        self.random, self.waiting = random.Random(seed), 4

    def hour(self, agents):
        self.waiting = max(0, self.waiting - sum(self.random.randint(1, 2) for _ in range(agents)))
        self.waiting = min(ROOM, self.waiting + sum(self.random.random() < 0.3 for _ in range(10)))


class Wrapped(gymnasium.Env):
    """The fifteen lines: states are callers waiting, actions are agents on duty."""

    observation_space = gymnasium.spaces.Discrete(ROOM + 1)
    action_space = gymnasium.spaces.Discrete(AGENTS)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.centre = CallCentre(int(self.np_random.integers(2**31)))
        return self.centre.waiting, {}

    def step(self, action):
        self.centre.hour(int(action))
        return self.centre.waiting, 0.0, False, False, {}


known = {"stationary": True, "initial_state": 4, "action_masks": "none", "action_names": [f"{n} agents" for n in range(AGENTS)]}
atlas = ar.explore(Wrapped(), HOURS, max_episodes=20_000, seed=1, progress=False, **known)
print(f"Explored {atlas.episodes:,} days of {HOURS} hours, without any cost in mind.")

print("\nWhat an hour costs: 1 for each caller who waits, and the wage of each agent.")
for wage in (0.3, 1.0, 3.0):
    cost = f"-(state + {wage} * action)"
    plan = atlas.plan(cost, reward_range=(-(ROOM + 3.0 * (AGENTS - 1)), 0.0))
    found = atlas.verify(plan, Wrapped(), episodes=1_000, progress=False)
    staff = " ".join(str(int(a)) for a in plan.policy[0])
    print(f"  wage {wage}: a day costs {-found.value:5.1f}, certainly {-found.upper:.1f} to {-found.lower:.1f};", end=" ")
    print(f"agents for 0 to {ROOM} waiting: {staff}")

earned = plan.run(Wrapped(), episodes=5, seed=3)
print("\nFive days with the last wage cost", ", ".join(f"{-x:.0f}" for x in earned))

"""A plant of one's own: explore its wear once, then plan for prices that change, check the plan by playing it, and run it.

The simulator is an ordinary Gymnasium environment with action masks. Nothing about prices is in it: they are rewards, and come
later. Run it with `python examples/maintenance.py`.
"""

import gymnasium
import numpy as np
from gymnasium.spaces import Dict, Discrete

import anyreward as ar

WEAR, SPARES = 5, 3  # levels of wear, the last of which is broken; spare parts in the store
RUN, SERVICE, REPLACE, ORDER = range(4)


class Plant(gymnasium.Env):
    """A machine that wears out, and a store of spare parts that arrive the day after they are ordered."""

    observation_space = Dict({"wear": Discrete(WEAR), "spares": Discrete(SPARES)})
    action_space = Discrete(4)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.wear, self.spares = 0, 1
        return self._observation()

    def _observation(self):
        broken = self.wear == WEAR - 1
        mask = np.array([not broken, not broken and self.wear > 0, self.spares > 0, self.spares < SPARES - 1], np.int8)
        if not mask.any():  # a broken machine and a full store cannot be: there is always a spare part then
            raise RuntimeError
        return {"wear": self.wear, "spares": self.spares}, {"action_mask": mask}

    def step(self, action):
        if action == RUN:
            self.wear = min(WEAR - 1, self.wear + int(np.searchsorted([0.55, 0.9], self.np_random.random())))
        elif action == SERVICE:
            self.wear = max(0, self.wear - int(np.searchsorted([0.1, 0.5], self.np_random.random())))
        elif action == REPLACE:
            self.wear, self.spares = 0, self.spares - 1
        else:
            self.spares += 1
        observation, info = self._observation()
        return observation, 0.0, False, False, info


def price_list(goods, service, part):
    """The profit of a day as an expression of the state and the action: a worn machine makes fewer goods."""
    return f"{goods} * (action == 'run') * (1 - wear / 5) - {service} * (action == 'service') - {part} * (action == 'order')"


env = ar.Gymnasium(Plant(), action_names=("run", "service", "replace", "order"), initial_state={"wear": 0, "spares": 1})
atlas = ar.explore(env, horizon=30, max_episodes=6_000, stationary=True, seed=1, progress=False)
print(f"Explored {atlas.episodes:,} episodes of {atlas.certificate.horizon} days without any prices.")

print("\nThree price lists, planned for without exploring again:")
plans = {}
for name, prices in {"normal": (1.0, 0.2, 0.4), "dear parts": (1.0, 0.2, 1.0), "dear labour": (1.0, 0.9, 0.4)}.items():
    plans[name] = plan = atlas.plan(price_list(*prices), reward_range=(-1.0, 1.0))
    day = plan.to_pandas(visited=True).query("step == 0 and name == 'spares=1, wear=2'").iloc[0]
    sure = f"certainly {plan.lower:.2f} to {plan.upper:.2f}"
    print(f"  {name:12} earns {plan.value:.2f}, {sure}; a machine at wear 2: {day.action}")

plan = plans["normal"]
print("\nIs that so? The plan for normal prices on 2,000 fresh episodes:")
found = atlas.verify(plan, Plant(), episodes=2_000, progress=False)
print(f"  {found.value:.2f} on average; with probability 0.9 its value lies between {found.lower:.2f} and {found.upper:.2f}.")
better = atlas.verify(plan, Plant(), episodes=2_000, against=plans["dear labour"], progress=False)
print(f"  Better under these prices than the plan for dear labour by {better.lower:.2f} to {better.upper:.2f}.")

print("\nTen days of it:")
plant = Plant()
observation, info = plant.reset(seed=7)
for day in range(10):
    action = plan.act(observation, day, info["action_mask"])
    print(f"  day {day}: wear {observation['wear']}, {observation['spares']} spare -> {atlas.action_name(action)}")
    observation, _, _, _, info = plant.step(action)

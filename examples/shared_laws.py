"""Say what you know: machines that wear alike, and a demand that does not depend on the stock.

Both simulators are ordinary Gymnasium environments, and what is known about them takes a few lines. Run it with
`python examples/shared_laws.py`.
"""

import gymnasium
from gymnasium.spaces import Dict, Discrete

import anyreward as ar

MACHINES, LEVELS = ("drill", "lathe", "press"), 4  # the last level of wear is broken
WEAR = ((0.85, 0.12, 0.02, 0.01), (0.0, 0.8, 0.15, 0.05), (0.0, 0.0, 0.75, 0.25), (0.0, 0.0, 0.0, 1.0))
REPAIR = ((1.0, 0.0, 0.0, 0.0), (0.9, 0.1, 0.0, 0.0), (0.8, 0.1, 0.1, 0.0), (0.7, 0.0, 0.0, 0.3))


class Fleet(gymnasium.Env):
    """Machines that wear out independently. Action i services machine i, and the last action none of them."""

    observation_space = Dict({name: Discrete(LEVELS) for name in MACHINES})
    action_space = Discrete(len(MACHINES) + 1)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.levels = dict.fromkeys(MACHINES, 0)
        return dict(self.levels), {}

    def step(self, action):
        for i, (name, level) in enumerate(self.levels.items()):
            self.levels[name] = int(self.np_random.choice(LEVELS, p=(REPAIR if action == i else WEAR)[level]))
        return dict(self.levels), 0.0, False, False, {}


# A machine's next level depends on its level and on whether it is serviced, whichever machine it is: eight laws in all.
alike = ar.Structure.factored([LEVELS] * len(MACHINES), law=lambda machine, level, action: (level, action == machine))
names = (*(f"service the {name}" for name in MACHINES), "run all")
fleet = ar.Gymnasium(Fleet(), terminal="state", action_masks="none", initial_state=0, action_names=names)
goods = " + ".join(
    f"{worth} * (action != {i}) * ({m} < 3)" for i, (m, worth) in enumerate(zip(MACHINES, (0.2, 0.3, 0.5), strict=True))
)

print("A fleet of three machines, 1,500 episodes of 20 days:")
known = ar.explore(fleet, 20, max_episodes=1_500, structure=alike, progress=False)
without = known.counts.with_structure(None)
for name, atlas in (("nothing", ar.Atlas(without, ar.certify(without))), ("eight laws", known)):
    plan, it = atlas.plan(goods), atlas.certificate
    says = "says nothing" if it.says_nothing else f"says that plans lose at most {it.epsilon:.2f}"
    print(f"  declaring {name}: the certificate {says}; this plan certainly earns {plan.lower:.2f} to {plan.upper:.2f} of 20")
broken = {"drill": 1, "lathe": 0, "press": 3}
print(f"  with a broken press: {known.action_name(known.plan(goods).act(broken, 0))}")


class Shop(gymnasium.Env):
    """A shelf for ten. Orders arrive overnight; customers who find nothing left are lost."""

    observation_space, action_space = Discrete(11), Discrete(6)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.stock = 10
        return self.stock, {}

    def step(self, order):
        shelf = min(10, self.stock + int(order))
        self.stock = max(0, shelf - int(self.np_random.poisson(3.0)))
        return self.stock, 0.0, False, False, {}


# One law of demand, with "ten or more" as its last outcome. It is counted where the shelf was full; elsewhere a large demand
# cannot be told from a larger one.
demand = ar.Structure(
    law=lambda stock, order: "demand",
    outcomes=range(11),
    successor=lambda stock, order, wanted: max(0, min(10, stock + order) - wanted),
)
shop = ar.Gymnasium(Shop(), terminal="state", action_masks="none", initial_state=10)

print("\nA shop, 300 episodes of 14 days:")
known = ar.explore(shop, 14, max_episodes=300, structure=demand, progress=False)
without = known.counts.with_structure(None)
for name, atlas in (("nothing", ar.Atlas(without, ar.certify(without))), ("one law of demand", known)):
    for storage, cost in {"cheap": 0.02, "dear": 0.09}.items():
        plan = atlas.plan(f"1 - {cost} * state - 0.1 * (state == 0)")
        print(f"  declaring {name}, storage is {storage}: the plan certainly earns {plan.lower:.2f} to {plan.upper:.2f} of 14")
print(f"  assumed: {known.certificate.assumptions[0]}")

"""More to ask of one exploration: terms, limits, goals, a trade-off, and whether the plant has changed.

A machine with three levels of wear earns as long as it runs. Servicing it costs a day.
"""

import numpy as np

import anyreward as ar

WEAR = 3  # new, worn, broken
RUN, SERVICE = 0, 1


def plant(breaks=0.2):
    """Running wears the machine down; a service renews it, most of the time."""
    P = np.zeros((WEAR, 2, WEAR))
    P[0, RUN], P[1, RUN], P[2, RUN] = [0.7, 0.3, 0.0], [0.0, 1 - breaks, breaks], [0.0, 0.0, 1.0]
    P[:, SERVICE] = [0.95, 0.05, 0.0]
    return ar.TabularMDP(P, initial=0, state_names=["new", "worn", "broken"], action_names=["run", "service"])


atlas = ar.explore(plant(), horizon=20, max_episodes=5000, stationary=True)

earns = ar.term("earns", "action == 'run' and state != 'broken'")
plan = atlas.plan(earns - ar.term("parts", "0.5 * (action == 'service')"))
for name, part in plan.terms.items():
    print(f"{name:5} {part.value:6.2f}, certainly {part.lower:.2f} to {part.upper:.2f}")

limited = atlas.plan(earns, subject_to=[("action == 'service'", "<=", 1)])
print(f"With at most 1 service: certainly {limited.lower:.2f} to {limited.upper:.2f}, by {len(limited.plans)} policies")
print(f"... and certainly {limited.costs[0].lower:.2f} to {limited.costs[0].upper:.2f} services")
try:
    atlas.plan(earns, subject_to=[("state == 'broken'", "<=", -1)])
except ValueError as problem:
    print(f"A limit that nothing meets:\n{problem}")

curve = atlas.trade_off(earns, "-1.0 * (action == 'service')", points=5)
print(f"Whoever earns 15 has certainly at least {-curve.most(15.0):.2f} services")

safe = atlas.avoid("state == 'broken'")
print(f"Never broken: certainly with probability {safe.value.lower:.3f} to {safe.value.upper:.3f}")
back = atlas.reach(("state == 'worn'", "state == 'new'"))
print(f"Worn and then new again: certainly with probability {back.value.lower:.3f} to {back.value.upper:.3f}")

for breaks, when in ((0.2, "in May"), (0.4, "in June")):
    data = ar.explore(plant(breaks), horizon=20, max_episodes=300, stationary=True, seed=7)
    print(f"The plant {when}: {str(atlas.watch(data)).splitlines()[0].split(';')[0]}")

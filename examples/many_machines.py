"""Thirty machines: more states than can be numbered, and a certificate for every policy and every reward all the same.

Each machine has four levels of wear, which makes 10^18 joint states. A log in which machines were serviced at random says what
other policies are worth, since a machine's next level depends on its own level and on whether it is serviced. Run it with
`python examples/many_machines.py`.
"""

import numpy as np

import anyreward as ar

MACHINES, DAYS = 30, 20  # the last of the four levels of wear is broken
WEAR = np.array(((0.85, 0.12, 0.02, 0.01), (0.0, 0.8, 0.15, 0.05), (0.0, 0.0, 0.75, 0.25), (0.0, 0.0, 0.0, 1.0)))
REPAIR = np.array(((1.0, 0.0, 0.0, 0.0), (0.9, 0.1, 0.0, 0.0), (0.8, 0.1, 0.1, 0.0), (0.7, 0.0, 0.0, 0.3)))


def played(policy, months, seed):
    """Months of a policy (day, levels) in the real plant: levels (months, DAYS + 1, MACHINES) and actions (months, DAYS)."""
    rng, laws = np.random.default_rng(seed), np.stack([WEAR, REPAIR]).cumsum(axis=2)
    levels, actions = np.zeros((months, DAYS + 1, MACHINES), int), np.zeros((months, DAYS), int)
    for day in range(DAYS):
        actions[:, day] = policy(day, levels[:, day])
        serviced = (actions[:, day, None] == np.arange(1, MACHINES + 1)).astype(int)  # action 0 services none
        levels[:, day + 1] = (rng.random((months, MACHINES, 1)) > laws[serviced, levels[:, day]]).sum(axis=-1)
    return levels, actions


def running(day, levels, actions):
    """The share of the machines that produce: neither broken nor in service."""
    return ((levels < 3) & (actions[:, None] != np.arange(1, MACHINES + 1))).mean(axis=1)


def anything(day, levels):
    return np.random.default_rng(day).integers(0, MACHINES + 1, len(levels))


def worst_first(day, levels):
    return np.where(levels.max(axis=1) > 0, levels.argmax(axis=1) + 1, 0)


def nothing(day, levels):
    return np.zeros(len(levels), int)


plant = ar.Factored(
    sizes=(4,) * MACHINES,
    n_actions=MACHINES + 1,
    horizon=DAYS,
    start=(0,) * MACHINES,
    law=lambda machine, level, action: (level, action == machine + 1),  # eight laws, whichever machine it is
)

first = plant.counts()
first.add(*played(anything, 200, seed=1))
quotas = {law: int(0.95 * 49 * n.sum()) for law, n in first.seen.items()}  # what 9,800 more will have, or a little less
log = plant.counts(quotas)
log.add(*played(anything, 9_800, seed=2))
certificate = log.certify(delta=0.05)
print(f"A log of 9,800 months, epsilon {certificate.epsilon:.2f}. Assumed: {certificate.assumptions[0]}")
for name, policy in (("service the worst", worst_first), ("service none", nothing)):
    it = certificate.evaluate(policy, running, delta=0.01)
    levels, actions = played(policy, 5_000, seed=3)
    real = sum(running(day, levels[:, day], actions[:, day]) for day in range(DAYS)).mean()
    print(f"  {name}: certainly worth {it.lower:.2f} to {it.upper:.2f} of {DAYS}; played, it earns {real:.2f} on average")

"""What do I get in five minutes? Queueing networks whose truth is known, explored for five minutes of a simulator.

A network has m queues of limited room in a row. At every step a customer may arrive at the first queue, and the server, which is
at one queue at a time, may finish one and send it to the next. The reward is one minus the share of the room that is occupied.
Nothing is known to the library but that the transitions do not depend on the step, and where episodes start.

The cost of the simulator is simulated: five minutes of one that takes 15 microseconds, 100 microseconds or 1 millisecond a step
are that many steps, with 5 microseconds a step added for the adapter. Nine tenths of the steps explore, without a reward; one
tenth plays the plan (`Atlas.verify`). All numbers are divided by the horizon, so that 1 says nothing:

- certified: epsilon, how far from optimal any plan for any reward can be;
- interval: the width of the plan's own interval, upper - lower;
- verified: the width of the interval after playing the plan;
- regret: how far from optimal the plan really is, computed from the true model.

A second table has the same simulators, and three more, with and without what a user may know of them (`Structure`): a plant of
three machines that wear alike, an inventory whose demand does not depend on the stock, and a grid whose moves slip alike in all
cells. There, all steps explore.

    python benchmarks/five_minutes.py            # about fifteen minutes; --quick: the smallest network only
    python benchmarks/five_minutes.py --declared     # the second table only
"""

import sys
import time
from itertools import product

import numpy as np

import anyreward as ar

SECONDS, ADAPTER, VERIFYING = 300.0, 5e-6, 0.1
COSTS = {"15 µs": 15e-6, "100 µs": 100e-6, "1 ms": 1e-3}
NETWORKS = {100: (2, 9), 512: (3, 7), 1728: (3, 11)}  # states: queues, room of each
ARRIVAL, SERVICE = 0.4, 0.5  # probabilities of an arrival, and of the end of a service, at each step
RUN = ((0.85, 0.12, 0.02, 0.01), (0, 0.8, 0.15, 0.05), (0, 0, 0.75, 0.25), (0, 0, 0, 1))  # of a machine, from level 0, ..., 3
REPAIR = ((1, 0, 0, 0), (0.9, 0.1, 0, 0), (0.8, 0.1, 0.1, 0), (0.7, 0, 0, 0.3))  # of one that is serviced
STEPS = (30_000, 300_000, 900_000)  # of the second table


def moved(lengths: tuple[int, ...], room: int, server: int, arrives: int, served: int) -> tuple[int, ...]:
    """The lengths of the queues after a step."""
    now, queues = list(lengths), len(lengths)
    if served and now[server] > 0 and (server + 1 == queues or now[server + 1] < room):
        now[server] -= 1
        if server + 1 < queues:
            now[server + 1] += 1
    now[0] = min(room, now[0] + arrives)
    return tuple(now)


def network(queues: int, room: int) -> ar.TabularMDP:
    """A network of queues in a row: the state is the length of each, the action is the queue that is served."""
    sizes = (room + 1,) * queues
    S = (room + 1) ** queues
    lengths = np.stack(np.unravel_index(np.arange(S), sizes), axis=1)
    successors, probabilities = np.zeros((S, queues, 4), np.int64), np.zeros((S, queues, 4))
    for s in range(S):
        for a in range(queues):
            for k, (arrives, served) in enumerate([(0, 0), (1, 0), (0, 1), (1, 1)]):
                now = moved(tuple(map(int, lengths[s])), room, a, arrives, served)
                successors[s, a, k] = np.ravel_multi_index(now, sizes)
                probabilities[s, a, k] = (ARRIVAL if arrives else 1 - ARRIVAL) * (SERVICE if served else 1 - SERVICE)
    merged, law = np.zeros_like(successors), np.zeros_like(probabilities)
    for s in range(S):  # the same successor once
        for a in range(queues):
            found = np.unique(successors[s, a])
            for k, y in enumerate(found):
                merged[s, a, k], law[s, a, k] = y, probabilities[s, a][successors[s, a] == y].sum()
    reward = 1 - lengths.sum(axis=1) / (queues * room)
    return ar.TabularMDP.from_sparse(merged, law, initial=0, reward=reward)


def network_structure(queues: int, room: int) -> ar.Structure:
    """Arrivals and services are each one law, whatever the lengths are."""
    sizes = (room + 1,) * queues

    def successor(s: int, server: int, arrives: int, served: int) -> int:
        lengths = tuple(map(int, np.unravel_index(s, sizes)))
        return int(np.ravel_multi_index(moved(lengths, room, server, arrives, served), sizes))

    return ar.Structure.drawn(
        laws=[lambda s, a: "arrival", lambda s, a: "service"], outcomes=[(0, 1), (0, 1)], successor=successor
    )


def plant() -> ar.TabularMDP:
    """Three machines; action 0 runs all of them, action i + 1 services machine i. Running machines produce, worn ones less."""
    P, reward = np.zeros((64, 4, 64)), np.zeros((64, 4))
    for s, a in product(range(64), range(4)):
        levels = np.unravel_index(s, (4, 4, 4))
        laws = [np.array(REPAIR[level] if a == i + 1 else RUN[level]) for i, level in enumerate(levels)]
        P[s, a] = np.einsum("i,j,k->ijk", *laws).reshape(-1)
        reward[s, a] = sum(1 - level / 3 for i, level in enumerate(levels) if a != i + 1) / 3
    return ar.TabularMDP(P, initial=0, reward=reward)


def plant_structure() -> ar.Structure:
    """Machines move independently, and a machine's next level depends on its level and on whether it is serviced."""
    return ar.Structure.factored((4, 4, 4), law=lambda i, level, a: (level, a == i + 1))


def problems() -> dict[str, tuple[ar.TabularMDP, ar.Structure, int]]:
    """The problems of the second table: a simulator, what is known of it, and the horizon."""
    stock, grid = ar.envs.inventory(), ar.envs.grid_world(15, 15, start=(7, 7), goal=(12, 12))
    return {
        "queues": (network(3, 11), network_structure(3, 11), 50),
        "plant": (plant(), plant_structure(), 50),
        "inventory": (stock, stock.structure, 50),
        "grid": (grid, grid.structure, 50),
    }


def declared() -> None:
    """The second table: the same steps of the same simulators, without and with a structure."""
    print("| | states | H | laws | steps | ε/H, flat | ε/H, declared | interval/H, flat | interval/H, declared | true regret/H |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name, (mdp, structure, H) in problems().items():
        best = float(mdp.initial @ ar.backward_induction(mdp, mdp.reward, H).V[0])
        for steps in STEPS:
            episodes, certified, intervals = steps // H, [], []
            for known in ({"stationary": True}, {"structure": structure}):
                began = time.process_time()
                atlas = ar.explore(mdp, H, max_episodes=episodes, progress=False, seed=1, **known)
                plan = atlas.plan(mdp.reward)
                print(f"{name}: {time.process_time() - began:.1f} s", file=sys.stderr)
                certified.append(said(atlas.certificate.epsilon / H))
                intervals.append(f"{plan.regret_bound / H:.4f}")
            earned = float(mdp.initial @ ar.evaluate_policy(mdp, plan.policy, mdp.reward, H).V[0])
            laws = len(atlas.counts.setting.structure.sizes)
            cells = [name, f"{mdp.n_states:,}", H, laws, f"{steps:,}", *certified, *intervals, f"{(best - earned) / H:.1e}"]
            print(f"| {' | '.join(map(str, cells))} |", flush=True)


def said(epsilon: float) -> str:
    """What a certificate says, divided by H."""
    return "says nothing" if epsilon >= 1 else f"{epsilon:.3f}"


def main() -> None:
    quick = "--quick" in sys.argv
    if "--declared" in sys.argv:
        return declared()
    print("| states | H | a step takes | episodes | certified ε/H | interval/H | verified/H | true regret/H |")
    print("|---|---|---|---|---|---|---|---|")
    for S, shape in NETWORKS.items():
        mdp = network(*shape)
        assert mdp.n_states == S
        for H in (20, 50):
            best = float(mdp.initial @ ar.backward_induction(mdp, mdp.reward, H).V[0])
            for name, cost in COSTS.items():
                steps = SECONDS / (cost + ADAPTER)
                episodes = int(steps * (1 - VERIFYING) / H)
                atlas = ar.explore(mdp, H, max_episodes=episodes, stationary=True, progress=False, seed=1)
                plan = atlas.plan(mdp.reward)
                found = atlas.verify(plan, mdp, episodes=int(steps * VERIFYING / H), progress=False)
                earned = float(mdp.initial @ ar.evaluate_policy(mdp, plan.policy, mdp.reward, H).V[0])
                cells = [S, H, name, f"{episodes:,}", said(atlas.certificate.epsilon / H)]
                cells += [f"{plan.regret_bound / H:.3f}", f"{(found.upper - found.lower) / H:.4f}", f"{(best - earned) / H:.1e}"]
                print(f"| {' | '.join(map(str, cells))} |", flush=True)
        if quick:
            return
    print()
    declared()


if __name__ == "__main__":
    main()

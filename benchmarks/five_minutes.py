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

    python benchmarks/five_minutes.py            # about ten minutes; --quick: the smallest network only
"""

import sys

import numpy as np

import anyreward as ar

SECONDS, ADAPTER, VERIFYING = 300.0, 5e-6, 0.1
COSTS = {"15 µs": 15e-6, "100 µs": 100e-6, "1 ms": 1e-3}
NETWORKS = {100: (2, 9), 512: (3, 7), 1728: (3, 11)}  # states: queues, room of each
ARRIVAL, SERVICE = 0.4, 0.5  # probabilities of an arrival, and of the end of a service, at each step


def network(queues: int, room: int) -> ar.TabularMDP:
    """A network of queues in a row: the state is the length of each, the action is the queue that is served."""
    sizes = (room + 1,) * queues
    S = (room + 1) ** queues
    lengths = np.stack(np.unravel_index(np.arange(S), sizes), axis=1)
    successors, probabilities = np.zeros((S, queues, 4), np.int64), np.zeros((S, queues, 4))
    for s in range(S):
        for a in range(queues):
            for k, (arrives, served) in enumerate([(0, 0), (1, 0), (0, 1), (1, 1)]):
                now = lengths[s].copy()
                if served and now[a] > 0 and (a + 1 == queues or now[a + 1] < room):
                    now[a] -= 1
                    if a + 1 < queues:
                        now[a + 1] += 1
                now[0] = min(room, now[0] + arrives)
                successors[s, a, k] = np.ravel_multi_index(tuple(now), sizes)
                probabilities[s, a, k] = (ARRIVAL if arrives else 1 - ARRIVAL) * (SERVICE if served else 1 - SERVICE)
    merged, law = np.zeros_like(successors), np.zeros_like(probabilities)
    for s in range(S):  # the same successor once
        for a in range(queues):
            found = np.unique(successors[s, a])
            for k, y in enumerate(found):
                merged[s, a, k], law[s, a, k] = y, probabilities[s, a][successors[s, a] == y].sum()
    reward = 1 - lengths.sum(axis=1) / (queues * room)
    return ar.TabularMDP.from_sparse(merged, law, initial=0, reward=reward)


def main() -> None:
    quick = "--quick" in sys.argv
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
                epsilon = min(1.0, atlas.certificate.epsilon / H)
                cells = [S, H, name, f"{episodes:,}", "says nothing" if epsilon >= 1 else f"{epsilon:.3f}"]
                cells += [f"{plan.regret_bound / H:.3f}", f"{(found.upper - found.lower) / H:.4f}", f"{(best - earned) / H:.1e}"]
                print(f"| {' | '.join(map(str, cells))} |", flush=True)
        if quick:
            break


if __name__ == "__main__":
    main()

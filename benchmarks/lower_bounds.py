"""How many episodes it takes, beside what no algorithm can do without on the hardest problem of that size.

    python benchmarks/lower_bounds.py

The lower bounds are rates (`anyreward.theory.rate`): their constants are small or not published, logarithms are left out, and
they are about the hardest model with S states and A actions, which the models here are not. So a ratio may be below 1. delta =
0.1; "every reward" is the default of `explore`, "its own" is BPI-UCRL for the model's own reward.
"""

import anyreward as ar
from anyreward.theory import rate

DELTA = 0.1
PROBLEMS = {  # model, horizon, stationary, shares of the horizon for explore and for identify
    "double chain, by step": (lambda: ar.envs.double_chain(), 20, False, (0.5, 0.2), (0.2, 0.1)),
    "double chain, stationary": (lambda: ar.envs.double_chain(), 20, True, (0.5, 0.2, 0.1), (0.2, 0.1)),
    "garnet(20, 2, 3), by step": (lambda: ar.envs.garnet(20, 2, 3), 10, False, (0.5, 0.2), (0.2,)),
    "garnet(20, 2, 3), stationary": (lambda: ar.envs.garnet(20, 2, 3), 10, True, (0.5, 0.2), (0.2,)),
    "river swim, stationary": (lambda: ar.envs.river_swim(), 20, True, (0.5, 0.2), (0.2,)),
}


def main() -> None:
    columns = "S²AH²/ε² (Jin 2020)", "SAH² log(1/δ)/ε² (Dann 2015)", "SAH³ log(1/δ)/ε² (Domingues 2021)"
    print("|", " | ".join(("problem", "ε / H", "for", "episodes τ", *columns, "τ / largest")), "|")
    print("|---" * 8 + "|")
    for name, (build, H, stationary, free, best) in PROBLEMS.items():
        mdp = build()
        for share, problem in [*((share, "reward-free") for share in free), *((share, "best policy") for share in best)]:
            options = {"epsilon": share * H, "delta": DELTA, "stationary": stationary, "seed": 0, "max_episodes": 10**6}
            if problem == "reward-free":
                atlas, what = ar.explore(mdp, H, **options), "every reward"
            else:
                atlas, what = ar.explore(mdp, H, algorithm="bpi-ucrl", **options), "its own"
            tau = f"{atlas.episodes:,}" if atlas.certificate.met else "more than 1,000,000"
            size = mdp.n_states, mdp.n_actions, H, share * H, DELTA
            bounds = [
                rate(problem, "small epsilon", "lower", *size)[0] if problem == "reward-free" else None,
                rate(problem, "small delta", "lower", *size)[0],
                None if stationary else rate(problem, "small delta, by step", "lower", *size)[0],
            ]
            most = max(bound for bound in bounds if bound is not None)
            cells = ["–" if bound is None else f"{bound:,.0f}" for bound in bounds]
            ratio = f"{atlas.episodes / most:.2g}"
            print(f"| {name} | {share:g} | {what} | {tau} | {' | '.join(cells)} | {ratio} |", flush=True)


if __name__ == "__main__":
    main()

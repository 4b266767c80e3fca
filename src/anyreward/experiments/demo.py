"""A tour of the library: the double chain of the paper, explored once without a reward and then planned for six rewards."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..atlas.atlas import Atlas
from ..data.tabular import TabularMDP
from ..envs import double_chain
from ..exploring.explore import explore
from ..planning import backward_induction, evaluate_policy
from ..plots import check_drawable, figure, save_figure
from ..words import console, down, plain, up

LENGTH, HORIZON, EPSILON, DELTA = 31, 20, 2.0, 0.1


def rewards(mdp: TabularMDP) -> dict[str, np.ndarray]:
    """Six rewards that one might want to plan for once the exploration is over, by name; (S,) or (S, A) arrays."""
    position = np.arange(mdp.n_states) / (mdp.n_states - 1)
    return {
        "the right end": np.asarray(mdp.reward),
        "the left end": (position == 0).astype(float),
        "either end, right half": (position == 0) + 0.5 * (position == 1),
        "stay in the middle": 1 - 2 * np.abs(position - 0.5),
        "away from the middle": (np.abs(position - 0.5) > 0.2).astype(float),
        "drawn at random": np.random.default_rng(1).random((mdp.n_states, mdp.n_actions)),
    }


def run(out: Path, seed: int = 0) -> Atlas:
    """Explore, print the certified intervals beside the true values, and draw the picture.

    Parameters
    ----------
    out
        The file of the picture; its ending (.png, .pdf or .svg) decides the format.
    seed
        Seed of the explorations.

    Returns
    -------
    Atlas
        The exploration with tight bounds.
    """
    from rich.table import Table

    check_drawable(out)
    screen = console()
    mdp = double_chain(LENGTH)
    screen.print(
        f"Exploring the double chain ({LENGTH} states, horizon {HORIZON}) without a reward, until every plan for every reward "
        f"is certified to be {EPSILON:g}-optimal with probability {1 - DELTA:g} (an episode earns at most {HORIZON}) ..."
    )
    atlas = explore(mdp, HORIZON, EPSILON, DELTA, seed=seed, progress=True, on_interrupt="raise")
    screen.print(f"Certified: {atlas.certificate}.\n")
    screen.print("The same exploration with the paper's algorithm and the paper's bound ...")
    paper = explore(
        mdp, HORIZON, EPSILON, DELTA, "rf-ucrl", "paper", seed=seed, replan="geometric", progress=True, on_interrupt="raise"
    )
    screen.print(f"{paper.episodes:,} episodes, {paper.episodes / atlas.episodes:,.0f} times as many.\n")

    title = f"One exploration, six rewards (for every reward, epsilon is at most {up(atlas.certificate.epsilon)})"
    table = Table("reward", "lower", "upper", "width", "optimum", "value of plan", title=title)
    for name, reward in rewards(mdp).items():
        plan = atlas.plan(reward)
        optimum = backward_induction(mdp, reward, HORIZON).V[0] @ mdp.initial
        value = evaluate_policy(mdp, plan.policy, reward, HORIZON).V[0] @ mdp.initial
        sure = down(plan.lower), up(plan.upper), up(plan.regret_bound)
        table.add_row(name, *sure, f"{optimum:.3f}", f"{value:.3f}")
    screen.print(table)
    draw(atlas, paper, out)
    screen.print(plain(f"Picture: {out}"))
    return atlas


def draw(atlas: Atlas, paper: Atlas, out: Path) -> None:
    """Draw the state visits, and the certified epsilon against the number of episodes with tight bounds and with the paper's."""
    from matplotlib.ticker import NullLocator, ScalarFormatter

    picture = figure(11, 4)
    visits, certified = picture.subplots(1, 2)
    visits.bar(np.arange(atlas.counts.setting.n_states), atlas.counts.state_visits(), color="#4878a8")
    visits.set(title=f"State visits in {atlas.episodes:,} episodes", xlabel="state", ylabel="visits", yscale="log")

    for run, color in ((atlas, "#4878a8"), (paper, "#c98a2b")):
        t, epsilon = np.array(run.history[1:]).T
        certified.loglog(t, epsilon, color=color)
        middle = np.argmin(np.abs(np.log(epsilon / np.sqrt(EPSILON * HORIZON))))  # halfway between both ends of the axis
        text = f"{run.certificate.bounds}:\n{run.episodes:,}\nepisodes"
        certified.annotate(text, (t[middle], epsilon[middle]), (-8, 0), color=color, ha="right", va="center",
                           textcoords="offset points")  # fmt: skip
    certified.axhline(EPSILON, color="#a84848", linestyle="--")
    certified.annotate(f"asked for: ε = {EPSILON:g}", (1, EPSILON), (4, 4), color="#a84848", textcoords="offset points")
    certified.set(xlabel="episodes", ylabel="ε", xlim=(1, None), ylim=(0.85 * EPSILON, HORIZON))
    certified.set_title(f"Certified ε, for every reward at once (above {HORIZON}, it says nothing)", fontsize="medium")
    certified.set_yticks([2, 5, 10, HORIZON])
    certified.yaxis.set_major_formatter(ScalarFormatter())
    certified.yaxis.set_minor_locator(NullLocator())
    save_figure(out, picture)

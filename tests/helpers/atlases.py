"""Small atlases to plan from and to merge."""

from typing import Any

import anyreward as ar

from .problems import random_mdp

H = 4


def explored(seed: int = 0, episodes: int = 300, mdp: ar.TabularMDP | None = None, **options: Any) -> ar.Atlas:
    mdp = random_mdp(4, 2, seed=0) if mdp is None else mdp
    options = {"algorithm": "rf-ucrl", "bounds": "paper", **options}
    return ar.explore(mdp, H, max_episodes=episodes, seed=seed, **options)

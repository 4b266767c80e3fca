"""Small atlases to plan from and to merge."""

import anyreward as ar

from .problems import random_mdp

H = 4


def explored(seed=0, episodes=300, mdp=None, **options):
    mdp = random_mdp(4, 2, seed=0) if mdp is None else mdp
    options = {"algorithm": "rf-ucrl", "bounds": "paper", **options}
    return ar.explore(mdp, H, max_episodes=episodes, seed=seed, **options)

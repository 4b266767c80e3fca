"""The algorithms that are made of others, with small budgets."""

from typing import Any

import numpy as np

import anyreward as ar
from anyreward.algorithms import Jin2020, RegretInstances, RegretUniform
from anyreward.environments.tabular import play as play_model

CONVERSIONS = {"jin2020": Jin2020, "regret-uniform": RegretUniform, "regret-instances": RegretInstances}


def make(name: str, setting: ar.Setting, **options: Any) -> Any:
    more = {} if name == "jin2020" else {"reward": np.linspace(0, 1, setting.n_states)}
    return CONVERSIONS[name](setting, **more, **{"budget": 200, **options})


def advanced(explorer: Any, mdp: ar.TabularMDP, upto: int, rng: np.random.Generator) -> Any:
    while explorer.episodes < upto:
        play_model(explorer, mdp, rng, upto - explorer.episodes, 0.0)
    return explorer

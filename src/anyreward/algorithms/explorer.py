"""What every explorer is: counts, a policy for the next episode, and a bound on what is still unknown."""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import inf
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..certificates.bounds import Bound, PaperBound, as_bound
from ..certificates.certificate import Certificate, certify
from ..data.counts import Counts
from ..rewards.forms import ArrivalReward, Reward, reward_of_setting
from ..setting import Setting, probability, real_number, whole_number

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike

    from ..data.tabular import TabularMDP


class Explorer(ABC):
    """An algorithm that explores. A subclass has to say which policy comes next: `ask`.

    Parameters
    ----------
    setting
        What is explored.
    delta
        The certificate may fail with at most this probability, in (0, 1).
    bounds
        Which certificate `error_bound` is: `"tight"`, `"paper"`, or a bound with options of its own (`bounds`).
    clip, max_successors, transfer
        Options of these bounds, if they are given by name: `clip` of `PaperBound`, the others of `TightBound`. One that the
        bounds do not have is refused.
    seed
        Makes every choice of the algorithm repeatable.
    growth
        How much the number of episodes grows, above 1, between two looks at the certificate in `explore`.
    """

    goal: ClassVar[str] = "reward-free"  # or best policy, regret, generative
    guarantee: ClassVar[str] = "its atlas is certified by the bounds"
    status: ClassVar[str] = "certified"  # how far its guarantee goes: certified, proved, on trust, none
    reference: ClassVar[str] = ""
    needs_reward: ClassVar[bool] = False  # whether it is for one reward; `explore` gives it the model's own if it gets none
    needs_budget: ClassVar[bool] = False  # whether it has to know the number of episodes beforehand, as `budget`
    clips: ClassVar[bool] = False  # whether its index has the option `clip`
    knows_masks: ClassVar[bool] = False  # whether its own guarantee holds where actions may be illegal
    plays_episodes: ClassVar[bool] = True  # whether it walks through its environment
    heuristic = False  # whether its constants are not those of its guarantee

    def __init__(
        self,
        setting: Setting,
        delta: float = 0.1,
        bounds: str | Bound = "tight",
        clip: bool = True,
        max_successors: int | None = None,
        transfer: bool | None = None,
        seed: int = 0,
        growth: float = 1.03,
    ) -> None:
        if not 1.0 < real_number(growth, "growth") < inf:
            raise ValueError(f"growth is {growth}: it has to be above 1, and finite.")
        self.setting, self.delta, self.clip = setting, probability(delta, "delta"), clip
        options: dict[str, Any] = {"max_successors": max_successors, "transfer": transfer}
        if bounds == PaperBound.name:
            options["clip"] = clip
        elif not clip and not self.clips:
            raise ValueError(f"clip is False, but neither {type(self).__name__} nor its bounds clip anything: leave it out.")
        if transfer and setting.stationary:
            raise ValueError("transfer is between steps: a stationary setting has none to transfer from. Leave it out.")
        self.bound = as_bound(bounds, **{name: value for name, value in options.items() if value is not None})
        self.seed, self.growth = seed, growth
        self.counts = Counts(setting, transfer=getattr(self.bound, "transfer", False))

    @classmethod
    def defaults(cls, setting: Setting, epsilon: float) -> dict[str, Any]:
        """Options that suit a target of epsilon, for `explore` to use unless they are given."""
        return {}

    @abstractmethod
    def ask(self) -> np.ndarray:
        """The policy of the next episode, (H, S) integers."""

    def tell(self, states: ArrayLike, actions: ArrayLike) -> None:
        """Learns from an episode (H+1 states, H actions) or from a batch of them, one a row.

        Everything is checked before anything is learnt. Episodes need not have been played with the policy of `ask`:
        data from any source that chose its actions without knowledge of the future is valid.
        """
        self._learn(*self.counts.checked(states, actions))

    def _learn(self, states: np.ndarray, actions: np.ndarray) -> None:
        self.counts.add_episodes(states, actions)

    def advance(self, mdp: TabularMDP, rng: np.random.Generator, episodes: int, goal: float) -> bool:
        """Plays and learns from at least one and at most `episodes` episodes of a known model.

        An explorer that follows its own error bound ends early, and returns True, once the bound is at most `goal`.
        """
        states, actions = mdp.rollout(self.ask(), seed=rng)
        self.tell(states, actions)
        return False

    def actor(self) -> Callable[[int, int], int]:
        """The policy of the next episode as a function of step and state, for one who plays it step by step."""
        policy = self.ask()
        return lambda h, s: policy[h, s]

    def reached(self, goal: float) -> bool:
        """Whether an explorer that follows its own error bound sees it at or below `goal`; others are told by `error_bound`."""
        return False

    wants_rewards = False  # whether `tell` has to be given what was paid, as a third argument

    def state(self) -> dict[str, np.ndarray]:
        """All that later decisions depend on, beside what the explorer was made with.

        A subclass that keeps more than its counts adds it here, and takes it up in `restore`.
        """
        return self.counts.state()

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Goes on from where `state` was taken, to the last bit. Raises ValueError if that is not a state."""
        self.counts = Counts.from_state(self.setting, state, self.counts.transfer)

    def _tie_key(self, ties: str) -> int:
        """The key under which ties are broken; 0 takes the first. A stream of its own: the environment's draws, seeded by the
        same number, are independent of it."""
        word = np.random.SeedSequence(self.seed, spawn_key=(1,)).generate_state(1, np.uint64)[0] | np.uint64(1)
        return int(word) if ties == "random" else 0

    @property
    def episodes(self) -> int:
        """How many episodes were learnt from."""
        return self.counts.episodes

    def certificate(self, epsilon: float | None = None) -> Certificate:
        """What can be certified now; `epsilon` is the target, if there is one."""
        return certify(self.counts, self.delta, self.bound, epsilon)

    @property
    def recommendation(self) -> np.ndarray | None:
        """The policy recommended for the one reward that is explored for, (H, S); None if there is none."""
        return None

    @property
    def own_epsilon(self) -> float | None:
        """What the algorithm's own theorem guarantees now, with probability 1 - delta; None if it guarantees nothing.

        For a reward-free algorithm: every plan is this good. For one with a reward: its recommendation is.
        """
        return None

    def guaranteed(self) -> float | None:
        """`own_epsilon`, or None where its theorem says nothing: with illegal actions, unless the algorithm knows of them."""
        masked = self.setting.hidden_masks or len(self.counts.illegal)
        return None if masked and not self.knows_masks else self.own_epsilon

    @property
    def error_bound(self) -> float:
        """The bound on the value error of every policy under every reward in [0, 1], exact for the present counts."""
        return self.bound(self.counts, self.delta)


class RewardedExplorer(Explorer):
    """An explorer for one known reward. `reward` has values in [0, 1]: (S,), (S, A), (H, S, A) or a function (h, s, a)."""

    needs_reward = True

    def __init__(self, setting: Setting, reward: Reward = None, **options: Any) -> None:
        super().__init__(setting, **options)
        if reward is None:
            raise ValueError(f"reward is not given: {type(self).__name__} needs the reward that it is to do well for.")
        given = reward_of_setting(reward, setting, (0.0, 1.0))
        if isinstance(given, ArrivalReward):
            raise ValueError(f"a reward on arrival does not suit {type(self).__name__}: give one of step, state and action.")
        self.reward = np.array(given[:1] if np.ndim(reward) in (1, 2) and not callable(reward) else given)


def only_undiscounted(setting: Setting, name: str) -> None:
    """Raises if there is a discount, for algorithms that are not made for one."""
    if setting.discount != 1.0:
        raise ValueError(f"discount is {setting.discount:g}: {name} is for problems without a discount.")


def transitions(budget: int | None, setting: Setting, name: str) -> int:
    """T = K H for algorithms that have to know it beforehand."""
    if budget is None:
        raise ValueError(f"budget is not given: {name} has to know beforehand how many episodes there will be.")
    episodes = whole_number(budget, "budget")
    if episodes < 1:
        raise ValueError(f"budget is {episodes}: it has to be at least 1.")
    return episodes * setting.horizon

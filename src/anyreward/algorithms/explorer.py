"""What every explorer is: an algorithm that says which policy to play next (`ask`) and learns from what it met (`tell`).

A new algorithm is one new file in this folder with a subclass of `Explorer`, or of one of the four that have more in common:

==================  ==================================================================================================
`GreedyExplorer`    greedy for an error index: reward-free algorithms (`rf_trajectory.py` is the shortest example)
`OptimisticExplorer`  greedy for an optimistic index of one reward (`ucbvi.py`), or of errors (`rf_express.py`)
`PhasedUCRL`        optimistic over balls around the empirical laws, in phases (`ucrl2.py`)
`PlannedExplorer`   plans for a reward of its own making, in NumPy (`info_gain.py`)
==================  ==================================================================================================

The decorator `register` gives it a name; nothing else has to be edited. What holds for the algorithm (whether it needs a reward,
can be resumed, has a proof) is an attribute of its class, and `anyreward.testing` checks that it is so.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from .. import kernels
from ..certificates.bounds import Bound, PaperBound, TightBound, as_bound
from ..certificates.certificate import Certificate, certificate_of, in_units
from ..data.counts import Counts
from ..rewards.forms import UNIT, ArrivalReward, Reward, checked_range, reward_of_setting, to_unit
from ..rewards.given import Given
from ..setting import Setting, boolean, checked, positive, probability, real_number, shown, whole_number

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

NEVER = 2**62  # more episodes than there can be
NOTHING = np.zeros((0, 0, 0))  # known beforehand of states without data
CHUNK = 256  # episodes of a batch that are learnt from at once


class Explorer(ABC):
    """An algorithm that explores. A subclass has to say which policy comes next: `ask`.

        class Rightward(Explorer):
            '''Always moves right.'''

            def ask(self):
                return np.ones((self.setting.horizon, self.setting.n_states), int)

        atlas = anyreward.explore(env, horizon=20, algorithm=Rightward, max_episodes=100)

    Parameters
    ----------
    setting
        What is explored.
    delta
        The certificate may fail with at most this probability, in (0, 1).
    bounds
        Which certificate `error_bound` is: `"tight"`, `"paper"`, or a bound with options of its own (`certificates.bounds`).
    clip, max_successors, transfer
        Options of these bounds, if they are given by name: `clip` of `PaperBound`, the others of `TightBound`. An option that
        the bounds do not have is refused.
    deterministic
        Whether you know that every transition is deterministic: another name for `max_successors=1`.
    seed
        Makes every choice of the algorithm repeatable.
    growth
        `explore` asks whenever the number of episodes has grown by this factor, which is above 1, whether the certificate may be
        what is wanted, and looks at it then.
    """

    name: ClassVar[str] = ""  # under which it is registered
    goal: ClassVar[str] = "reward-free"  # or "best policy", "several rewards", "regret", "PAC-MDP", ... (`algorithms`)
    guarantee: ClassVar[str] = "every plan epsilon-optimal once its counts are certified"
    status: ClassVar[str] = "certified"  # how far its guarantee goes: certified, proved, on trust, none
    reference: ClassVar[str] = ""
    needs_reward: ClassVar[bool] = False  # it explores for one reward; `explore` gives it the model's own if it gets none
    needs_budget: ClassVar[bool] = False  # it has to know the number of episodes beforehand, as `budget`
    supports_discount: ClassVar[bool] = True
    resumable: ClassVar[bool] = True  # `state` and `restore` take it up again to the last bit
    proved: ClassVar[bool] = False  # it has a guarantee of its own, `own_epsilon`, beside our certificate
    certifies: ClassVar[str] = ""  # what that is about, if neither about every plan nor about its recommendation
    handles_masks: ClassVar[bool] = False  # that guarantee holds where actions may be illegal
    continues: ClassVar[bool] = False  # it can go on from counts that it did not collect itself (`go_on_from`)
    plays_episodes: ClassVar[bool] = True  # it walks through its environment; a generative model does not
    clips: ClassVar[bool] = False  # its index has the option `clip`
    steady: ClassVar[bool] = False  # it evens out what the bound charges, so that its bound does not fall all at once
    batches: ClassVar[bool] = True  # several episodes may be played before it is told of the first; its guarantee stays valid
    per_call: int = 5_000  # episodes before Python looks in, where that changes nothing; `explore` takes fewer if they are slow
    heuristic: bool = False  # its constants are not those of its guarantee, which is then withdrawn
    reward_range: tuple[float, float] = UNIT  # of the reward; `error_bound` and `own_epsilon` are in its units
    given: tuple[Given, ...] = ()  # the rewards that it explores for, if it explores for a list of them
    observes_rewards: bool = False  # `tell` has to be given what was paid, as a third argument

    # What it says of itself to those who watch, and of its result. A subclass that computes one of them makes it a property.
    phase: str = ""  # what it is doing; empty if it only ever does one thing
    finished: bool = False  # nothing is gained by more episodes: exploration then stops
    expected: float | None = None  # about how many episodes there will be in all, if the algorithm has planned that
    recommendation: np.ndarray | None = None  # the policy for the one reward that is explored for, (H, S), if there is one
    facts: ClassVar[dict[str, Any]] = {}  # plain numbers, kept beside its guarantee in `atlas.source["own"]`

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
        deterministic: bool = False,
    ) -> None:
        growth, self.delta, self.clip, deterministic = checked(
            (real_number, "growth", growth),
            (probability, "delta", delta),
            (boolean, "clip", clip),
            (boolean, "deterministic", deterministic),
        )
        if not 1.0 < growth < inf:
            raise ValueError(f"growth is {growth}: it has to be above 1, and finite.")
        if setting.discount != 1.0 and not self.supports_discount:
            raise ValueError(f"discount is {setting.discount:g}: {type(self).__name__} is for problems without a discount.")
        self.setting = setting
        options: dict[str, Any] = {"max_successors": max_successors, "transfer": transfer}
        if bounds == PaperBound.name:
            options["clip"] = self.clip
        elif not self.clip and not self.clips:
            raise ValueError(f"clip is False, but neither {type(self).__name__} nor its bounds clip anything: leave it out.")
        if transfer and setting.stationary:
            raise ValueError("transfer is between steps: a stationary setting has none to transfer from. Leave it out.")
        self.bound = as_bound(bounds, deterministic, **{name: value for name, value in options.items() if value is not None})
        self.seed, self.growth = seed, growth
        self.options: dict[str, Any] = {}  # what `make_explorer` made it with, beside delta, bounds and seed
        self.counts = Counts(setting, transfer=getattr(self.bound, "transfer", False))
        self._bounds: dict[Any, tuple[Any, float]] = {}  # each with the revision of the counts that it was computed for

    @classmethod
    def defaults(cls, setting: Setting, epsilon: float) -> dict[str, Any]:
        """Options that suit a target of epsilon, which `explore` uses unless they are given.

        Example:

            anyreward.RFTrajectory.defaults(setting, epsilon=2.0)
        """
        return {}

    @classmethod
    def for_setting(cls, setting: Setting, options: Mapping[str, Any]) -> type[Explorer]:
        """The class that `make_explorer` takes: this one, unless it has another form for the setting or for these options."""
        return cls

    @abstractmethod
    def ask(self) -> np.ndarray:
        """The policy of the next episode, (H, S) integers.

        Example:

            policy = explorer.ask()
            action = policy[0, 15]                          # what to do at step 0 in state 15
        """

    def tell(self, states: ArrayLike, actions: ArrayLike) -> None:
        """Learns from an episode (H+1 states, H actions) or from a batch of them, one a row.

            explorer.tell(*env.rollout(explorer.ask()))

        Everything is checked before anything is learnt. Episodes need not have been played with the policy of `ask`:
        data from any source that chose its actions without knowledge of the future is valid.
        """
        self._learn(*self.counts.checked(states, actions))

    def _learn(self, states: np.ndarray, actions: np.ndarray) -> None:
        """Learns from episodes that were checked, (B, H+1) and (B, H) int64."""
        self.counts.add_episodes(states, actions)

    def actor(self) -> Callable[[int, int], int]:
        """The policy of the next episode as a function of step and state, for one who plays it step by step.

        Example:

            choose = explorer.actor()
            action = choose(0, 15)                          # at step 0 in state 15
        """
        return self.ask().item

    def ask_ahead(self, k: int) -> np.ndarray:
        """The policy of the k-th episode from here, (H, S), for those who play several before they tell of the first.

            policies = [explorer.ask_ahead(k) for k in range(8)]

        `ask_ahead(0)` is `ask()`.
        """
        return self.ask()

    def ask_many(self, episodes: int, goal: float) -> Request:
        """What to play next on a known model, which can play many episodes at once: at least one, at most `episodes`.

        A fast form of `ask`: the same episodes are played, and `tell_many` leaves the same behind. An explorer that stops by an
        index of its own lets the compiled loop end once that is at most `goal`.
        """
        return Policies(self.ask()[None])

    def tell_many(self, request: Request, *outcome: np.ndarray) -> None:
        """Learns from what came of a request of `ask_many`."""
        self.tell(*outcome)

    def reached(self, goal: float) -> bool:
        """Whether an explorer that stops by an index of its own is certified to `goal`; for others `error_bound` tells.

        Example:

            explorer.reached(goal=1.0)                      # a goal is an error bound, half of an epsilon
        """
        return False

    def state(self) -> dict[str, np.ndarray]:
        """All that later decisions depend on, beside what the explorer was made with.

            kept = explorer.state()                         # arrays, for a file

        A subclass that keeps more than its counts adds it here, and takes it up in `restore`.
        """
        if not self.resumable:
            raise ValueError(
                f"{type(self).__name__} cannot be saved half-way: it keeps more than its counts. Explore without a checkpoint."
            )
        return self.counts.state()

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Resumes from where `state` was taken, to the last bit. Raises ValueError if that is not a state.

        Example:

            again = anyreward.RFTrajectory(setting)
            again.restore(explorer.state())
            (again.ask() == explorer.ask()).all()
        """
        numbering = self.counts.numbering
        self.counts = Counts.from_state(self.setting, state, self.counts.transfer)
        self.counts.numbering = numbering
        self._bounds = {}

    def go_on_from(self, counts: Counts) -> None:
        """Takes up counts that were collected before, in whatever way. Raises if the algorithm needs more than counts.

            anyreward.RFTrajectory(setting).go_on_from(Counts.from_episodes(states, actions, setting))

        A subclass that keeps more than its counts, but can compute it from them, declares `continues` and does so here.
        """
        if not self.continues or self.needs_budget:
            raise ValueError(
                f"{type(self).__name__} cannot go on from data that it did not collect itself: it needs more than counts. Use "
                "another algorithm, such as 'rf-trajectory'."
            )
        self.counts, self._bounds = counts, {}

    def _tie_key(self, ties: str) -> int:
        """The key under which ties are broken; 0 takes the first maximiser.

        It is a stream of its own: the environment's draws, seeded by the same number, are independent of it.
        """
        if ties not in ("random", "first"):
            raise ValueError(f"ties is {shown(ties)}: it has to be 'random' or 'first'.")
        word = np.random.SeedSequence(self.seed, spawn_key=(1,)).generate_state(1, np.uint64)[0] | np.uint64(1)
        return int(word) if ties == "random" else 0

    @property
    def episodes(self) -> int:
        """How many episodes were learnt from."""
        return self.counts.episodes

    def bound_of(self, bound: Bound) -> float:
        """A bound for the present counts. It is computed once: asking again costs nothing until there is something new."""
        now, key = self.counts.revision, bound if isinstance(bound, Hashable) else id(bound)
        if self._bounds.get(key, (None, 0.0))[0] != now:
            if self.setting.initial:
                self.counts.check_start()
            self._bounds[key] = now, float(bound(self.counts, self.delta))
        return self._bounds[key][1]

    @property
    def certified(self) -> Counts:
        """The counts that the certificate is about, and that plans are made from."""
        return self.counts

    @property
    def error_bound(self) -> float:
        """The bound on the value error of every policy under every reward in `reward_range`, exact for the present counts."""
        error = self.bound_of(self.bound)
        return error if self.reward_range == UNIT else in_units(error, self.reward_range)

    @property
    def looks_can_wait(self) -> bool:
        """Whether `error_bound` is the bound that `is_far_from` speaks of; otherwise it has to be computed to know of it."""
        plain = type(self).error_bound is Explorer.error_bound and type(self.bound) is TightBound
        return plain and (self.setting.structure is None or self.setting.structure.apart)

    @property
    def is_steady(self) -> bool:
        """Whether its bound does not fall all at once, as it does for deterministic transitions when the last one is seen."""
        return self.steady and getattr(self.bound, "max_successors", None) != 1

    def is_far_from(self, goal: float) -> bool:
        """Whether `error_bound` is certain to be above `goal`, found out without computing it. False says nothing."""
        low, high = self.reward_range
        return isinstance(self.bound, TightBound) and self.bound.is_above(self.counts, self.delta, goal / (high - low))

    def certificate(self, epsilon: float | None = None) -> Certificate:
        """What can be certified now; `epsilon` is the target, if there is one.

        Example:

            explorer.certificate(epsilon=2.0).met           # whether the target is reached
        """
        return certificate_of(self.counts, self.delta, self.bound, self.bound_of(self.bound), epsilon, self.reward_range)

    @property
    def own_epsilon(self) -> float | None:
        """What the algorithm's own theorem guarantees now, with probability 1 - delta; None if it guarantees nothing.

        For a reward-free algorithm: every plan is this good. For one with a reward: its recommendation is. If the class says
        what it `certifies`, it is about that and nothing else.
        """
        return None

    def mistake_bound(self, epsilon: float) -> float | None:
        """At most how many episodes are played with a policy that is more than epsilon worse than the best (PAC-MDP).

            anyreward.ALGORITHMS["r-max"](setting, reward, target=2.0).mistake_bound(2.0)

        It holds with probability 1 - delta, for one epsilon that is chosen beforehand and episodes that are told one by one. It
        is infinite if the algorithm was made for a larger epsilon, None if nothing is proved. It is a bound on a count, not a
        certificate of any policy.
        """
        return None

    def guaranteed(self) -> float | None:
        """`own_epsilon`, or None where its theorem says nothing: with illegal actions, unless the algorithm handles them."""
        if not self.handles_masks and (self.setting.hidden_masks or len(self.counts.illegal)):
            return None
        return self.own_epsilon


@dataclass(frozen=True)
class Policies:
    """One episode with each of these policies. Its outcome: states (B, H+1) and actions (B, H)."""

    policies: np.ndarray  # (B, H, S)


@dataclass(frozen=True)
class Learning:
    """Episodes from each of which an explorer learns before the next one, in the compiled loop (`kernels.loop`).

    Its outcome: nothing, or the states (B, H+1), actions (B, H) and policies (B, H, S) of the episodes, as far as they are to be
    `written` down.
    """

    explorer: IndexExplorer
    episodes: int
    goal: float = -1.0
    written: str = ""  # "", "episodes" or "policies"
    until: int = NEVER  # no further than so many episodes in all


@dataclass(frozen=True)
class Repeated:
    """Many episodes of the greedy policy of an index, played together. Its outcome: counts, as rows of (h, s, a, next, count)."""

    index: Any  # of `kernels.greedy`
    node_of: np.ndarray
    key: np.uint64  # under which ties are broken
    horizon: int
    episodes: int
    prior: np.ndarray = field(default_factory=lambda: NOTHING)  # in states without data, see `kernels.greedy.choose_without_data`

    @classmethod
    def of(cls, policy: np.ndarray, episodes: int) -> Repeated:
        """Many episodes of a policy (H, S)."""
        H, S = policy.shape
        nowhere = np.zeros((1, S), np.uint32)  # no state is a node of the index
        index = kernels.greedy.Greedy(np.zeros((1, 1)), np.zeros((1, 1)), np.zeros((1, 1), np.uint8), np.zeros(1))
        return cls(index, nowhere, np.uint64(0), H, episodes, policy)


@dataclass(frozen=True)
class Draws:
    """So many successors of each pair of a generative model, and so many starts. Its outcome: as that of `Repeated`."""

    times: np.ndarray  # (1 or H, S, A) int64
    starts: int


Request = Policies | Learning | Repeated | Draws


class IndexExplorer(Explorer):
    """An explorer that plays the greedy policy of an index over what was visited, kept up to date by a compiled learner.

    A subclass gives the learner (`kernels.loop` tells what that is) and the formulas that it was compiled with.

    Parameters
    ----------
    ties
        `"random"`: one of the maximisers, drawn anew whenever the index is brought up to date; or `"first"`.
    setting, delta, bounds, clip, max_successors, transfer, seed, growth
        See `Explorer`.
    """

    due: int = NEVER  # after how many episodes `_when_due` has to be called, if it has something to do

    def __init__(self, setting: Setting, *args: Any, ties: str = "random", **options: Any) -> None:
        super().__init__(setting, *args, **options)
        self.ties = ties
        self.seed_key = np.uint64(self._tie_key(ties))
        self._nothing_paid, self._nodes = np.zeros((1, setting.horizon)), np.empty(setting.horizon + 1, np.uint32)

    @abstractmethod
    def learner(self) -> Any:
        """Its arrays and constants, with room for all that the counts have room for."""

    @property
    @abstractmethod
    def formulas(self) -> Any:
        """The named tuple whose methods are the formulas of this algorithm."""

    def _catch_up(self) -> None:
        """Lets the index know what was declared of states and actions since it was computed, if it depends on that."""

    @property
    def episode_key(self) -> np.uint64:
        """The key under which the next episode breaks its ties."""
        return np.uint64(kernels.greedy.episode_key(self.seed_key, self.episodes))

    def ask(self) -> np.ndarray:
        """The greedy policy of the index, (H, S)."""
        self._catch_up()
        return self.greedy_policy(self.episode_key)

    def ask_ahead(self, k: int) -> np.ndarray:
        """The same index, with ties broken under another key for each episode."""
        if k == 0:
            return self.ask()
        self._catch_up()
        return self.greedy_policy(np.uint64(kernels.greedy.episode_key(self.episode_key, k)))

    def greedy_policy(self, key: np.uint64) -> np.ndarray:
        """The greedy policy of the index as it stands, (H, S), with ties broken under a key; 0 takes the first maximiser."""
        learner, setting, node_of = self.learner(), self.setting, self.counts.table.node_of
        return kernels.greedy.policy(learner.index, learner.prior, setting.n_actions, node_of, setting.horizon, key)

    def ask_many(self, episodes: int, goal: float) -> Request:
        self._catch_up()
        return Learning(self, min(episodes, self.per_call), goal, until=self.due)

    def tell_many(self, request: Request, *outcome: np.ndarray) -> None:
        """The compiled loop has learnt already."""
        self._keep_up()

    def _keep_up(self) -> None:
        """Does what is due after so many episodes."""
        if self.counts.episodes >= self.due:
            self._when_due()

    def _when_due(self) -> None:
        """Does what is due once there are `due` episodes, and says when it is due again."""

    def _learn(self, states: np.ndarray, actions: np.ndarray, payments: np.ndarray | None = None) -> None:
        i = 0
        while i < len(states):
            part = slice(i, i + min(CHUNK, self.counts.until_booking, max(1, self.due - self.episodes)))
            paid, nodes = self._nothing_paid if payments is None else payments[part], self._nodes
            self.counts.reserve(len(states[part]) * states.shape[1])
            self.kernel("learn")(self.counts.table, self.learner(), states[part], actions[part], paid, nodes)
            self.counts.book_if_due()
            self._keep_up()
            i = part.stop

    def kernel(self, name: str) -> Callable[..., Any]:
        """A function of `kernels.loop`, compiled for the formulas of this algorithm."""
        return kernels.compiled.fitting(getattr(kernels.loop, name), self.formulas)


class RewardedExplorer(Explorer):
    """An explorer for one known reward of step, state and action.

    Its algorithm sees the reward r as (r - low) / (high - low), `self.reward`, which lies in [0, 1] as its proof wants it. Every
    policy earns H such rewards, so its value becomes (V - low sigma_H) / (high - low): the order of policies stays, and losses
    are divided by high - low. A subclass computes on that scale, `own_loss` included; what is reported is in the units of the
    reward.

    Parameters
    ----------
    reward
        (S,), (S, A), (H, S, A) or a function (h, s, a).
    reward_range
        The range of the reward, (0, 1) unless it is given.
    """

    needs_reward = True

    def __init__(
        self, setting: Setting, reward: Reward = None, *, reward_range: tuple[float, float] = UNIT, **options: Any
    ) -> None:
        super().__init__(setting, **options)
        if reward is None:
            raise ValueError(f"reward is not given: {type(self).__name__} needs the reward that it is to do well for.")
        self.reward_range = checked_range(reward_range)
        given = reward_of_setting(reward, setting, self.reward_range)
        if isinstance(given, ArrivalReward):
            raise ValueError(f"a reward on arrival does not suit {type(self).__name__}: give one of step, state and action.")
        steps = given[:1] if np.ndim(reward) in (1, 2) and not callable(reward) else given
        self.reward = np.array(to_unit(steps, self.reward_range))

    @property
    def own_loss(self) -> float | None:
        """`own_epsilon` on the scale on which the reward lies in [0, 1]."""
        return None

    @property
    def own_epsilon(self) -> float | None:
        loss = self.own_loss
        if loss is None or self.reward_range == UNIT:
            return loss
        rounding = 1e-12 * float(self.setting.sigma[-1])  # of the rescaled reward, at each step
        return in_units(loss + rounding, self.reward_range)

    def _mistakes(self, epsilon: float) -> float | None:
        """`mistake_bound` on the scale on which the reward lies in [0, 1]."""
        return None

    def mistake_bound(self, epsilon: float) -> float | None:
        low, high = self.reward_range
        return self._mistakes(positive(epsilon, "epsilon") / (high - low))


def transitions(budget: int | None, setting: Setting, name: str) -> int:
    """T = K H for algorithms that have to know it beforehand."""
    if budget is None:
        raise ValueError(f"budget is not given: {name} has to know beforehand how many episodes there will be.")
    episodes = whole_number(budget, "budget")
    if episodes < 1:
        raise ValueError(f"budget is {episodes}: it has to be at least 1.")
    return episodes * setting.horizon

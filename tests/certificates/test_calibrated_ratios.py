"""Calibrated certificates by likelihood ratios: every variant against plain loops, exact small cases, and designs.

It watches `docs/theory.md`, 14.10 and 14.12.
"""

from dataclasses import replace

import numpy as np
import pytest

import anyreward as ar
from anyreward import kernels
from anyreward.certificates import calibrated
from anyreward.certificates.calibrated import CalibratedBound, Design, assemble, calibrated_bound, forecast_bound, ratio_grid
from anyreward.certificates.deviances import deviance_limit

from ..helpers.calibrated_reference import Reference, whole_design
from ..helpers.ratios_reference import phi_by_ratios
from .test_calibrated import SHARES, VARIANTS, nothing_restarted, random_counts, random_design, setting_of, small_example

RATIOS = kernels.calibrated_ratios
FINE = ratio_grid(0.05, 150)


def parts(counts, design):
    problem = assemble(counts, design, nothing_restarted(design))
    return problem, calibrated._stages(problem, design), calibrated._union(problem, counts.setting, design.log_laws)


def phi_of(problem, stages, charges, seed, number, grid=FINE, tangents=2):
    out, spare = np.zeros((2, 1))
    RATIOS.simulate(problem.model, charges, stages, grid, tangents, seed, np.array([number]), out, spare)
    return float(out[0])


def polygons_of(problem, stages, seed, number, tangents=2):
    Q = len(stages.low)
    found = RATIOS.Polygons(np.zeros(Q, np.int64), np.zeros((Q, RATIOS.CORNERS)), np.zeros((Q, RATIOS.CORNERS)))
    RATIOS.draw(seed, number, stages, problem.model.edges, tangents, found)
    return [list(zip(found.theta[j, :n], found.f[j, :n], strict=True)) for j, n in enumerate(found.many)]


@pytest.mark.parametrize("options", VARIANTS.values(), ids=VARIANTS)
def test_the_functional_of_a_draw(options):
    setting, nontrivial = setting_of(options), 0
    for seed in range(4):
        counts = random_counts(setting, seed, most=(200, 20_000)[seed // 2], dense=0.7 if seed % 2 else 1.0)
        design = replace(random_design(counts, seed), ratios=True)
        slow, (problem, stages, charges) = Reference(counts, design), parts(counts, design)
        corners = polygons_of(problem, stages, design.seed, seed)
        own, g = {}, {}
        for row, i in enumerate(problem.row):
            if i >= 0:
                own[slow.laws[i]] = corners[stages.first[row] : stages.first[row + 1]]
                g[slow.laws[i]] = charges.g[row]
        calibrated_rows = {law: own[law] for law in own if law in slow.clean}
        wanted = phi_by_ratios(slow, calibrated_rows, g)
        found = phi_of(problem, stages, charges, design.seed, seed)
        assert found == pytest.approx(wanted, rel=5e-3, abs=1e-12)
        nontrivial += 0.0 < wanted < 0.9 * (problem.model.w_start or problem.model.w[:1].sum())
        rough = phi_of(problem, stages, charges, design.seed, seed, ratio_grid(0.16, 12))
        if not len(problem.union):  # where a row is a stop or not, another grid may choose otherwise
            assert rough >= found * (1 - 1e-12)  # straight lines are above
    assert nontrivial or setting.horizon == 1 or setting.hidden_masks


def test_with_one_transition_it_is_the_largest_total_variation():
    """Which is |f - theta|, whatever the grid."""
    setting = ar.Setting(n_states=2, n_actions=3, horizon=2, initial_state=0)
    counts = ar.Counts(setting)
    counts.add_flows(np.array([(0, 0, a, x, n) for a, N in enumerate([(300, 700), (50, 20), (9, 1)]) for x, n in enumerate(N)]))
    design = replace(whole_design(counts, SHARES, draws=200), ratios=True)
    problem, stages, charges = parts(counts, design)
    for number in range(50):
        wanted = max(abs(f - theta) for stage in polygons_of(problem, stages, 5, number, 1) for theta, f in stage)
        assert phi_of(problem, stages, charges, 5, number, ratio_grid(0.16, 3), 1) == pytest.approx(wanted, rel=1e-12)


def test_it_is_smaller_than_with_deviances_and_shrinks_with_the_quotas():
    counts, design = small_example(draws=1000)
    ratios = replace(design, ratios=True)
    one, other = calibrated_bound(counts, ratios), calibrated_bound(counts, design)
    assert 0.6 * other.quantile < one.quantile < 0.9 * other.quantile
    assert one.missing == other.missing
    assert not one.multipliers.any()
    assert one.value == pytest.approx(one.quantile + one.missing, rel=1e-8)
    larger = replace(ratios, quota=100 * design.quota)
    assert forecast_bound(counts, larger, 500).quantile == pytest.approx(one.quantile / 10, rel=0.25)


def test_the_order_statistic_is_that_of_all_draws(monkeypatch):
    counts, design = small_example(draws=600)
    design = replace(design, ratios=True)
    result = calibrated_bound(counts, design)
    monkeypatch.setattr(calibrated, "POINTS", calibrated.POINTS[1:] * 2)
    monkeypatch.setattr(calibrated, "TANGENTS", calibrated.TANGENTS[1:] * 2)
    assert calibrated_bound(counts, design).quantile == result.quantile
    problem, stages, charges = parts(counts, design)
    phi = [phi_of(problem, stages, charges, design.seed, number) for number in range(600)]
    assert np.sort(phi)[design.rank - 1] == pytest.approx(result.quantile, rel=0.01)


def test_results_do_not_depend_on_the_number_of_threads(monkeypatch):
    counts, design = small_example(draws=777)
    results = []
    for number in (1, 2, 5):
        monkeypatch.setattr(kernels, "processors", lambda number=number: number)
        results.append(calibrated_bound(counts, replace(design, ratios=True)).value)
    assert len(set(results)) == 1


def test_limits_are_shared_by_rows_and_their_stages():
    about = {"step": [0] * 4, "state": [0] * 4, "action": range(4), "quota": [9] * 4, "budget": [0.5] * 4}
    design = Design(**about, first=[0, 0, 1, 3, 7], symbols=[0, 0, 1, 0, 1, 2, 3], shares=SHARES)
    assert design.deviance_tail == SHARES.deviance / 3
    assert replace(design, ratios=True).deviance_tail == SHARES.deviance / (1 + 1 + 4)
    counts, small = small_example()
    small = replace(small, ratios=True)
    assert parts(counts, small)[1].limit == deviance_limit(2, small.shares.deviance / len(small.step))


def test_designs_say_which_functional_they_use():
    _, design = small_example()
    ratios = replace(design, ratios=True)
    assert "ratios" not in design.to_dict()  # older files, and their digests, are as they were
    assert Design.from_dict(ratios.to_dict()).ratios is True
    assert Design.from_dict(ratios.to_dict()).digest() == ratios.digest() != design.digest()
    assert CalibratedBound(ratios).options["design"]["ratios"] is True
    assert ratios.restarted([])[0].ratios
    with pytest.raises(ValueError, match="ratios is 1: it has to be True or False"):
        replace(design, ratios=1)


def test_a_union_row_costs_its_total_variation_or_all_that_is_left():
    setting = ar.Setting(n_states=3, n_actions=1, horizon=3, initial_state=0, absorbing_states=(2,))
    for n in (50_000, 500, 2):  # half of them lead to a state of which nothing is known
        counts = ar.Counts(setting)
        counts.add_flows(np.array([(0, 0, 0, 1, n), (0, 0, 0, 2, n)]))
        design = replace(whole_design(counts, SHARES, union=[(0, 0, 0)], draws=200), ratios=True)
        problem, stages, charges = parts(counts, design)
        g = charges.g[list(problem.row).index(0)]
        assert (2 * g + 0.5 > 2) == (n == 2)
        assert phi_of(problem, stages, charges, 0, 0) == pytest.approx(min(2.0, 2 * g + 0.5), rel=1e-12)

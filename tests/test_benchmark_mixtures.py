"""benchmarks/mixtures.py: its sets, its methods and their scores, and its quick forms."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture
from test_mixture import random_learner

# Benchmarks are scripts, not part of the package.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

import mixture_methods as methods
import mixture_report as report
import mixtures as benchmark
from mixture_sets import draw_sets

from sklearn_meta.heads.gaussian_mixture import em, log_likelihood, m_step
from sklearn_meta.weights import save_learner


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    path = tmp_path_factory.mktemp("weights") / "random.safetensors"
    return str(save_learner(random_learner(), path))


@pytest.fixture(scope="module")
def sets():
    return draw_sets("paper", 3, 2, (40, 90), 7)


# -- sets -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["paper", "varied"])
def test_sets_come_from_their_mixture(family):
    for s in draw_sets(family, 2, 3, (4000, 5000), 3):
        weights, means, covariances = s.truth
        assert len(s.X) == len(s.fresh) == len(s.labels) and 4000 <= len(s.X) <= 5000
        assert_allclose(np.bincount(s.labels, minlength=2) / len(s.X), weights, atol=0.05)
        for k in np.flatnonzero(weights > 0.2):
            own, deviation = s.X[s.labels == k], np.sqrt(np.diag(covariances[k]))
            assert_allclose((own.mean(0) - means[k]) / deviation, 0, atol=0.2)
            unit = np.outer(deviation, deviation)
            assert_allclose(np.cov(own.T) / unit, covariances[k] / unit, atol=0.2)
        if family == "paper":
            assert_allclose(covariances, [0.09 * np.eye(3)] * 2)
            assert np.abs(means).max() < 4


def test_sets_are_the_same_however_many_are_drawn():
    few, many = (draw_sets("varied", 3, 2, (20, 40), n) for n in (2, 5))
    for one, other in zip(few, many):
        assert_array_equal(one.X, other.X)
    assert not np.array_equal(many[0].X[:20], many[1].X[:20])


def test_digits_are_of_four_classes_and_fresh_ones_are_others():
    for s in draw_sets("digits", 4, 16, (100, 500), 3):
        assert set(s.labels) == {0, 1, 2, 3} and s.X.shape[1] == 16
        rows = np.vstack([s.X, s.fresh])
        assert len(np.unique(rows, axis=0)) == len(rows)


# -- methods and scores ---------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["diag", "full"])
def test_scores_are_scikit_learns(sets, kind):
    mixture = methods.scikit_learns(GaussianMixture, covariance_type=kind)([s.X for s in sets], 3)
    found = methods.scores_of(mixture, sets)
    for b, s in enumerate(sets):
        model = GaussianMixture(3, covariance_type=kind, random_state=0).fit(s.X)
        assert_allclose(found["ll0"][b], model.score(s.X), rtol=1e-8)
        assert_allclose(found["held_out"][b], model.score(s.fresh), rtol=1e-8)
        assert_allclose(found["ari"][b], adjusted_rand_score(s.labels, model.predict(s.X)))
    assert (found["ll1"] >= found["ll0"] - 1e-4).all()  # up to scikit-learn's reg_covar


@pytest.mark.parametrize("kind", ["diag", "full"])
def test_seeding_in_batches_is_seeding_one_by_one(sets, kind):
    found = methods.seeding(3, kind)([s.X * [1, 100] + 7 for s in sets], 3)
    for b, s in enumerate(sets):
        X = s.X * [1, 100] + 7
        standard = torch.from_numpy((X - X.mean(0)) / X.std(0))[None]
        mask, floor = torch.ones(1, len(X), dtype=torch.bool), torch.full((1, 2), 1e-6).double()
        seeds = m_step(standard, mask, methods._hard(standard, mask, 3), kind, floor)
        expected = em(standard, mask, seeds, 3, kind, floor)
        means = expected.means[0].numpy() * X.std(0) + X.mean(0)
        assert_allclose(found.means[b], means, rtol=1e-8)
        own = methods.Mixture(*(value[b : b + 1] for value in found))
        likelihood = log_likelihood(torch.from_numpy(X)[None], mask, own) + np.log(X.std(0)).sum()
        assert_allclose(likelihood, log_likelihood(standard, mask, expected), rtol=1e-8)


def test_the_penalised_step_adds_pseudo_observations():
    """Six points with the pooled variance and one point per component, written out for one set."""
    rng = np.random.default_rng(0)
    X, r = rng.standard_normal((30, 2)), rng.dirichlet(np.ones(3), 30)
    one, mask = torch.from_numpy(X)[None], torch.ones(1, 30, dtype=torch.bool)
    floor = torch.full((1, 2), 1e-9, dtype=torch.float64)
    counts = r.sum(0)
    means = r.T @ X / counts[:, None]
    scatter = np.stack([r[:, k] @ (X - means[k]) ** 2 for k in range(3)])
    expected = (scatter + 6 * scatter.sum(0) / 30) / (counts[:, None] + 6)
    found = methods._penalised(one, mask, torch.from_numpy(r)[None], "diag", floor)
    assert_allclose(found.covariances[0], expected)
    assert_allclose(found.means[0], means)
    assert_allclose(found.log_weights[0].exp(), (counts + 1) / 33)
    full = methods._penalised(one, mask, torch.from_numpy(r)[None], "full", floor).covariances
    assert_allclose(full[0].diagonal(dim1=-2, dim2=-1), expected)


def test_penalised_seeding_generalises_better_than_plain(sets):
    sets = draw_sets("paper", 4, 2, (100, 200), 60)
    points = [s.X for s in sets]
    plain, penalised = (
        methods.scores_of(methods.seeding(20, "diag", penalised=p)(points, 4), sets)
        for p in (False, True)
    )
    assert penalised["held_out"].mean() > plain["held_out"].mean()
    assert penalised["ll0"].mean() < plain["ll0"].mean()
    truth = methods.scores_of(methods.oracle(sets), sets)
    assert truth["held_out"].mean() > penalised["held_out"].mean()


def test_the_oracle_of_real_points_is_that_of_their_labels():
    sets = draw_sets("digits", 4, 5, (100, 120), 2)
    mixture = methods.oracle(sets)
    for b, s in enumerate(sets):
        for k in range(4):
            own = s.X[s.labels == k]
            assert_allclose(mixture.means[b, k], own.mean(0), rtol=1e-9)
            assert_allclose(mixture.covariances[b, k], own.var(0), rtol=1e-9)


# -- reports --------------------------------------------------------------------------------------


def test_differences_are_paired():
    rng = np.random.default_rng(0)
    base = rng.standard_normal(50)
    rows = pd.concat(
        pd.DataFrame(
            {"method": name, "position": range(50), "ms": ms}
            | {score: base + shift for score in report.SCORES}
        )
        for name, shift, ms in (("AmortizedGMM", 0.5, 2.0), ("oracle", 1.0, 0), ("peer", 0, 8.0))
    )
    summary = report.summarise(rows, "AmortizedGMM").set_index("method")
    assert list(summary.index) == ["oracle", "AmortizedGMM", "peer"]
    found = summary.loc["peer", ["ahead", "ahead_se", "times"]].astype(float)
    assert_allclose(found, [0.5, 0, 4], atol=1e-12)
    assert_allclose(summary.loc["peer", "held_out_se"], base.std(ddof=1) / 50**0.5)
    assert np.isnan(summary.loc["oracle", "ms"])
    text = report.table_report(rows, ["AmortizedGMM"])
    assert "Best peer held out: peer; by ARI: peer." in text
    assert "held_out -0.500 of the oracle's; held_out +0.5000 ± 0.0000 of the best peer's" in text


def some_of(named):
    """The first and the last entry."""
    names = list(named)
    return {name: named[name] for name in (names[0], names[-1])}


@pytest.mark.parametrize("form", ["paper", "large", "digits"])
def test_quick_tables(form, weights, tmp_path, monkeypatch):
    options = [] if form == "paper" else [f"--{form}"]
    command = ["--quick", *options, "--weights", weights, "--n-sets", "2"]
    if form != "paper":  # only the sets differ, so few methods are enough
        for name in ("PEERS", "CONTROLS"):
            monkeypatch.setattr(benchmark, name, some_of(getattr(benchmark, name)))
        ours = benchmark.ours
        monkeypatch.setattr(benchmark, "ours", lambda weights: some_of(ours(weights)))
    benchmark.main([*command, "--output", str(tmp_path)])
    rows = pd.read_csv(tmp_path / f"{form}_sets.csv.gz")
    means = pd.read_csv(tmp_path / f"{form}.csv").set_index("method")
    assert_allclose(
        means["held_out"], rows.groupby("method")["held_out"].mean()[means.index], atol=1e-4
    )
    assert set(rows["position"]) == {0, 1} and not rows.isna().any(axis=None)
    names = set(rows["method"])
    assert {"oracle", "GaussianMixture diag", "seeding + MAP-EM 20 full"} <= names
    assert {"AmortizedGMM random diag", "AmortizedGMM random full n_init=8"} <= names
    text = (tmp_path / f"{form}.md").read_text("utf-8")
    assert f"mixtures.py {' '.join([*options, '--quick'])}" in text
    if form == "paper":  # again, with the peers' rows reused
        again = [
            "--reuse",
            str(tmp_path / "paper_sets.csv.gz"),
            "--output",
            str(tmp_path / "again"),
        ]
        benchmark.main([*command, *again])
        found = pd.read_csv(tmp_path / "again" / "paper_sets.csv.gz")
        found = found.set_index(["method", "position"])
        expected = rows.set_index(["method", "position"]).loc[found.index]
        assert_allclose(found[list(report.SCORES)], expected[list(report.SCORES)], atol=2e-5)
        peers = ~found.index.get_level_values(0).str.startswith("AmortizedGMM")
        assert_array_equal(found["ms"][peers], expected["ms"][peers])
        assert len(found) == len(rows)


@pytest.mark.parametrize(
    "other", [("paper", 2, 2, (20, 50), 4, 1), ("paper", 2, 2, (20, 50), 5, 0)]
)
def test_rows_of_other_sets_are_not_reused(other):
    """Differences are paired by a set's position: other sets or missing rows would falsify them."""
    peers = {"seeding": methods.seeding(1, "diag")}
    known = benchmark.measure(draw_sets("paper", 2, 2, (20, 50), 4, 0), 2, peers)
    with pytest.raises(SystemExit, match="--reuse: the rows of seeding are not those"):
        benchmark.measure(draw_sets(*other), 2, peers, known)
    fewer = benchmark.measure(draw_sets("paper", 2, 2, (20, 50), 3, 0), 2, peers, known)
    assert_array_equal(fewer[fewer["method"] == "seeding"], known[known["method"] == "seeding"][:3])


def test_cells_without_weights_are_those_of_the_peers(tmp_path, monkeypatch):
    monkeypatch.setattr(benchmark, "CELL_METHODS", benchmark.CELL_METHODS[2:5])
    benchmark.main(["--quick", "--cells", "--n-sets", "1", "--weights", "--output", str(tmp_path)])
    assert "| seeding + EM 5 diag |" in (tmp_path / "cells.md").read_text("utf-8")


def test_quick_cells(weights, tmp_path, monkeypatch):
    once = benchmark.PEERS["GaussianMixture diag"]  # ten starts take ten times as long
    monkeypatch.setitem(benchmark.PEERS, "GaussianMixture diag n_init=10", once)
    command = ["--quick", "--cells", "--n-sets", "2", "--weights", weights]
    benchmark.main([*command, "--output", str(tmp_path)])
    rows = pd.read_csv(tmp_path / "cells_sets.csv.gz")
    means = pd.read_csv(tmp_path / "cells.csv")
    assert len(means) == rows.groupby(["family", "k", "d", "method"]).ngroups
    assert rows.groupby(["family", "k", "d"]).ngroups == 4
    ahead = report.compared(rows, "seeding + EM 20 {kind}")
    one = rows[(rows.family == "varied") & (rows.k == 4) & (rows.d == 2)]
    means = one.groupby("method")["held_out"].mean()
    expected = means["AmortizedGMM random full + EM 5"] - means["seeding + EM 20 full"]
    where = ("AmortizedGMM random full + EM 5", "varied", 4, 2)
    assert_allclose(ahead.loc[where, "ahead"], expected)
    assert len(ahead) == 8 * 4  # two kinds of covariance, four rows of ours, four cells
    assert (tmp_path / "cells.png").stat().st_size > 1000
    assert "| AmortizedGMM random diag | paper |" in (tmp_path / "cells.md").read_text("utf-8")

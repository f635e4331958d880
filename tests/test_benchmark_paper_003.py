"""benchmarks/paper_003.py: runs are kept and not repeated; its tests are the paper's."""

import json
import shutil
import sys
from argparse import Namespace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats

pytest.importorskip("matplotlib")
pytest.importorskip("optuna")
# Benchmarks are scripts, not part of the package.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

import paper_003
import paper_003_flow as flow
import paper_003_long
import paper_003_report as report
from paper_003_tasks import DATA, Data, Fixed, accuracy, encoded, make_learner, sampler, symbolic

from sklearn_meta.backbones.few_shot_transformer import VARIANTS
from sklearn_meta.backbones.image_encoder import ImageEncoder
from sklearn_meta.few_shot_learner import FewShotLearner
from sklearn_meta.tasks import Dataset, Drawings, Vectors
from sklearn_meta.weights import load_learner


@pytest.fixture(autouse=True)
def brief(monkeypatch):
    """Make runs even shorter than those of --quick, with one seed per model."""
    few = {"max_steps": 2, "batch_size": 2, "n_test": 5, "seeds": 1}
    monkeypatch.setattr(paper_003, "QUICK", paper_003.QUICK | few)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Noise instead of characters, and fitted networks."""
    path = tmp_path_factory.mktemp("omniglot")
    split = np.repeat(["train", "valid", "test"], 6)
    np.savez(
        path / "omniglot.npz",
        images=np.random.default_rng(0).integers(0, 256, (18, 20, 8, 8)).astype(np.uint8),
        alphabet=split,
        character=np.arange(18).astype(str),
        official_set=split,
        split=split,
    )
    symbolic(Namespace(n_functions=paper_003.QUICK["n_functions"], cache=path / "networks"))
    return path


def arguments(tmp_path, folder, *more):
    shutil.copytree(folder / "networks", tmp_path / "cache", dirs_exist_ok=True)
    places = ["--omniglot", str(folder), "--cache", str(tmp_path / "cache")]
    return ["--quick", *places, "--output", str(tmp_path / "out"), *more]


def test_runs_are_written_once_and_gone_on_with(tmp_path, folder, monkeypatch):
    monkeypatch.setitem(paper_003.QUICK, "seeds", 2)
    told = ["--data", "symbolic", "omniglot", "--models", "few_shot_transformer", "snail"]
    told = arguments(tmp_path, folder, *told)
    paper_003.main(told)
    runs = pd.read_csv(tmp_path / "out/runs.csv")
    assert runs.groupby(["data", "model"]).size().tolist() == [2] * 4  # two seeds
    assert runs[["valid", "test"]].apply(lambda c: c.between(0, 1)).all(axis=None)
    text = (tmp_path / "out/runs.md").read_text("utf-8")
    assert "## omniglot, models, 2 steps" in text and "| snail | 2 |" in text
    assert (tmp_path / "out/symbolic_models_2.png").stat().st_size > 1000
    monkeypatch.setattr(paper_003, "train", None)  # nothing is left to train
    paper_003.main(told)
    assert pd.read_csv(tmp_path / "out/runs.csv").equals(runs)


def test_ablations_differ_in_nothing_but_attention(tmp_path, folder):
    paper_003.main(arguments(tmp_path, folder, "--ablations"))
    runs = pd.read_csv(tmp_path / "out/runs.csv")
    assert sorted(set(runs["model"])) == ["A1", "A3", "A5", "A6", "A7", "A8"]
    others = runs["config"].str.replace(r'"attention": "A\d", ', "", regex=True)
    assert others.nunique() == 1


def test_hidden_units_may_be_told(tmp_path, folder):
    told = ["--data", "symbolic", "--models", "few_shot_transformer", "snail"]
    told = arguments(tmp_path, folder, *told)
    paper_003.main(told)
    paper_003.main([*told, "--n-latent", "8"])
    runs = pd.read_csv(tmp_path / "out/runs.csv")
    assert runs["model"].tolist() == ["few_shot_transformer", "snail", "few_shot_transformer"]
    latent = runs["config"].map(lambda text: json.loads(text).get("n_latent"))
    assert latent.dropna().tolist() == [8] and latent[2] == 8
    assert runs["n_parameters"][2] < runs["n_parameters"][0]
    with pytest.raises(SystemExit):
        paper_003.main([*told, "--n-latent", "8", "--search", "1"])


def test_the_papers_settings_are_run_with(tmp_path, folder):
    told = arguments(tmp_path, folder, "--data", "omniglot", "--paper")
    wrong = ["--found"], ["--search", "1"], ["--dropout", "0.5"], ["--coefficients"]
    for more in (*wrong, ["--weights", "omniglot_few_shot"]):  # the paper has its own weights
        with pytest.raises(SystemExit):
            paper_003.main([*told, *more])
    paper_003.main([*told, "--models", "transformer"])
    runs = pd.read_csv(tmp_path / "out/runs.csv")
    expected = {"n_layers": 3, "rate": 5e-3, "schedule": "noam", "width": 32}
    assert runs["config"].map(json.loads).tolist() == [expected]
    options = paper_003.parse_arguments([*told, "--ablations"])
    ours = paper_003.PAPER["omniglot"]["few_shot_transformer"]
    assert (ours.rate, ours.schedule, ours.config) == (1e-4, "constant", {"width": 64})
    for name, settings in paper_003.settings_of("omniglot", options).items():
        config = {"width": 64, "n_layers": 2, "attention": name}  # section 4.4
        assert settings == ours._replace(rate=1e-4, schedule="noam", config=config)


@pytest.mark.parametrize("data", DATA)
def test_the_papers_settings_are_of_networks_that_there_are(data):
    assert set(paper_003.PAPER[data]) == set(paper_003.MODELS)
    for model, settings in paper_003.PAPER[data].items():
        config = {"inputs": "vectors", "n_inputs": 8, "backbone_config": settings.config}
        assert FewShotLearner(settings.backbone, **config).names["backbone"] == model


def test_the_search_goes_on_where_it_was_killed(tmp_path, folder):
    for n in ("1", "2", "2"):
        paper_003.main(arguments(tmp_path, folder, "--models", "transformer", "--search", n))
    trials = pd.read_csv(tmp_path / "out/search_symbolic_transformer.csv")
    assert trials["number"].tolist() == [0, 1]
    assert {"value", "width", "n_layers", "dropout", "rate"} <= set(trials)
    assert (tmp_path / "out/search_symbolic_transformer.png").stat().st_size > 1000


def test_runs_with_the_settings_that_were_found(tmp_path, folder):
    told = arguments(tmp_path, folder, "--models", "transformer")
    with pytest.raises(SystemExit, match="search_symbolic_transformer.csv is not there"):
        paper_003.main([*told, "--found"])
    for more in (["--ablations"], ["--dropout", "0.5"], ["--coefficients"]):  # not what was found
        with pytest.raises(SystemExit):
            paper_003.main([*told, "--found", *more])
    paper_003.main([*told, "--search", "2", "--orders", "2"])
    best = (
        pd.read_csv(tmp_path / "out/search_symbolic_transformer.csv").sort_values("value").iloc[-1]
    )
    paper_003.main([*told, "--found", "--orders", "2"])
    runs = pd.read_csv(tmp_path / "out/runs.csv")
    expected = best.drop(["number", "value"]).to_dict()
    for config, protocol in zip(runs["config"], runs["protocol"], strict=True):
        assert json.loads(config) == pytest.approx(expected)
        assert json.loads(protocol)["orders"] == 2


def test_what_was_found_behind_an_encoder_is_not_taken_without_it(tmp_path):
    behind, without = (Namespace(output=tmp_path, encoder=e) for e in ("weights", None))
    row = {"number": 0, "value": 0.9, "width": 16, "rate": 0.01}
    pd.DataFrame([row]).to_csv(paper_003.search_file("omniglot", "snail", behind), index=False)
    assert paper_003.found_settings("omniglot", "snail", behind).rate == 0.01
    with pytest.raises(SystemExit, match="search_omniglot_snail.csv is not there"):
        paper_003.found_settings("omniglot", "snail", without)


def test_weights_are_scored_as_they_are(tmp_path, folder):
    name = "omniglot_few_shot"
    paper_003.main(arguments(tmp_path, folder, "--data", "omniglot", "--weights", name))
    scores = pd.read_csv(tmp_path / "out/weights.csv")
    assert scores["split"].tolist() == ["valid", "test"] and scores["accuracy"].between(0, 1).all()
    assert (scores["sha256"] == load_learner(name).card["sha256"][:12]).all()
    assert not (tmp_path / "out/runs.csv").exists()
    with pytest.raises(SystemExit, match="omniglot_few_shot cannot read --data symbolic"):
        paper_003.main(arguments(tmp_path, folder, "--weights", name))


def test_gradient_flow_is_of_every_layer_and_run(tmp_path, folder, monkeypatch):
    monkeypatch.setitem(paper_003.QUICK, "seeds", 2)
    monkeypatch.setattr(flow, "N_EPISODES", 50)
    told = arguments(tmp_path, folder, "--data", "symbolic", "--flow")
    for more in (["--search", "1"], ["--coefficients"], ["--weights", "omniglot_few_shot"]):
        with pytest.raises(SystemExit):
            paper_003.main([*told, *more])
    paper_003.main(told)
    rows = pd.read_csv(tmp_path / "out/flow.csv")
    assert rows.groupby("model")["seed"].nunique().to_dict() == {
        "few_shot_transformer": 2,
        "transformer": 2,
    }
    parts = {model: runs["part"].unique().tolist() for model, runs in rows.groupby("model")}
    own = ["values", "attention weights", "feed-forward"]
    assert parts["few_shot_transformer"] == [f"layer 1, {name}" for name in own]
    own = ["queries", "keys", "values", "feed-forward"]
    assert parts["transformer"] == [f"layer 1, {name}" for name in own]
    assert (rows[["gradient_before", "gradient_after", "moved"]] > 0).all(axis=None)
    hidden = rows["part"].str.contains("feed-forward") | rows["model"].eq("few_shot_transformer")
    assert rows["idle_units"].notna().to_list() == hidden.to_list()
    assert (tmp_path / "out/flow.png").stat().st_size > 1000
    assert not (tmp_path / "out/runs.csv").exists()
    paper_003.main(told)  # read from the checkpoints
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "out/flow.csv"), rows)
    flow.write(rows.assign(data="other").to_dict("records"), tmp_path / "out")
    both = pd.read_csv(tmp_path / "out/flow.csv")
    assert both.groupby("data").size().to_dict() == {"other": len(rows), "symbolic": len(rows)}
    with pytest.raises(SystemExit):
        paper_003.main([*told, "--models", "snail"])


def told_apart():
    """A learner whose embedding passes one-hot rows on, and data of such rows."""
    rows = np.repeat(np.eye(8, dtype=np.float32), 6, axis=0)
    dataset = Fixed(Dataset("x", rows, np.repeat(np.arange(8), 6)))
    data = Data({"train": dataset, "valid": dataset}, {}, None, Vectors(8))
    data.learner.update(inputs="vectors", n_inputs=8)
    learner = make_learner(data, "few_shot_transformer", {"width": 8, "n_latent": 16}, 0).eval()
    with torch.no_grad():
        learner.backbone.embedding.weight.copy_(10 * torch.eye(8))
        learner.backbone.embedding.bias.zero_()
    return learner, data


def test_what_is_lost_where_a_part_says_the_same_of_everything():
    """Parts that contribute nothing can be held without loss; half of the units are idle."""
    learner, data = told_apart()
    layer = learner.backbone.layers[0]
    with torch.no_grad():
        for part in (layer.attention.values, layer.attention.weights):
            for parameter in part.parameters():
                parameter.mul_(1e-3)
        first, _, second = layer.feed_forward
        first.weight.copy_(torch.cat([torch.eye(8), -torch.eye(8)]))
        first.bias.copy_(torch.cat([torch.zeros(8), torch.full((8,), -100.0)]))  # never active
        second.weight.copy_(torch.cat([-2 * torch.eye(8), torch.eye(8)], 1))
        second.bias.zero_()
    rows = flow.measure(learner, data, lambda learner: None, n_test=100)
    rows = pd.DataFrame(rows).set_index("part")
    assert (rows["accuracy"] == 1).all() and (rows["moved"] == 0).all()
    assert (rows["gradient_before"] == rows["gradient_after"]).all()
    kept = rows["accuracy_held"]
    assert kept["layer 1, values"] == kept["layer 1, attention weights"] == 1
    assert rows.loc["layer 1, feed-forward", "idle_units"] == 0.5
    parts = flow.parts_of(learner.backbone)
    for name, n_parameters in rows["n_parameters"].items():
        assert n_parameters == sum(p.numel() for p in parts[name].parameters())


def test_gradients_are_those_of_the_loss():
    learner, data = told_apart()
    batches = [
        (learner.head.loss(learner(**inputs), target), list(part.parameters()))
        for inputs, target in flow.episodes(data, "train", flow.N_EPISODES)
        for part in [learner.backbone.layers[0].feed_forward]
    ]
    ratios = []
    for loss, weights in batches:
        gradient = torch.cat([g.flatten() for g in torch.autograd.grad(loss, weights)])
        ratios.append(gradient.norm() / torch.cat([w.flatten() for w in weights]).norm())
    found = flow.gradients(learner, data)["layer 1, feed-forward"]
    assert found == pytest.approx(torch.stack(ratios).mean().item(), rel=1e-4)
    assert all(p.grad is None or not p.grad.any() for p in learner.parameters())


def test_a_part_that_is_held_says_its_usual_output():
    learner, data = told_apart()
    part = learner.backbone.layers[0].attention.values
    usual, _ = flow.usual_outputs(learner, data, 100)
    told, seen = usual["layer 1, values"], []
    hook = part.register_forward_hook(lambda m, _, out: seen.append(out))
    inputs = [inputs for inputs, _ in flow.episodes(data, "valid", 100)]
    with torch.inference_mode():
        for each in inputs:
            learner(**each)
        hook.remove()
        assert torch.cat(seen).mean(0).sub(told).abs().max() < 1e-5
        with flow.held(part, told):
            first, again = (learner.backbone.layers[0](x * torch.ones(3, 6, 8)) for x in (1.0, 2.0))
            assert part(torch.randn(3, 6, 8)).equal(told.expand(3, -1, -1))
        assert not part(torch.randn(3, 6, 8)).equal(told.expand(3, -1, -1))
    assert not first.equal(again)  # the rest of the layer still reads its input


def test_coefficients_of_functions_not_seen(tmp_path, folder):
    paper_003.main(arguments(tmp_path, folder, "--coefficients"))
    scores = pd.read_csv(tmp_path / "out/coefficients.csv")
    assert len(scores) == 3 and (scores.iloc[:, 1:] <= 1).all(axis=None)


def test_pairs_are_compared_by_the_papers_tests():
    """Eq. (4.1), (4.5) and (4.6), written out."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(0.9, 0.01, 10), rng.normal(0.88, 0.02, 10)
    group = pd.DataFrame({"model": ["a"] * 10 + ["b"] * 10, "test": np.append(a, b)})
    line = report.tests(group)[2].split("|")
    pooled = np.sqrt((9 * a.var(ddof=1) + 9 * b.var(ddof=1)) / 18)
    t = (a.mean() - b.mean()) / (pooled * np.sqrt(2 / 10))
    z = np.abs(a - np.median(a)), np.abs(b - np.median(b))
    mean = np.concatenate(z).mean()
    between = 10 * sum((part.mean() - mean) ** 2 for part in z)
    w = 18 * between / sum(((part - part.mean()) ** 2).sum() for part in z)
    assert float(line[3]) == pytest.approx(stats.f.sf(w, 1, 18), rel=0.05)
    assert float(line[4]) == pytest.approx(2 * stats.t.sf(abs(t), 18), rel=0.05)
    # For very unequal variances Student's test is not valid: Welch's is used.
    group["test"] = np.append(a, b := rng.normal(0.85, 0.2, 10))
    found, whose = report.tests(group)[2].split("|")[4].split()
    squared = a.var(ddof=1) / 10, b.var(ddof=1) / 10
    freedom = sum(squared) ** 2 / sum(s**2 / 9 for s in squared)
    t = (a.mean() - b.mean()) / np.sqrt(sum(squared))
    assert whose == "(Welch)"
    assert float(found) == pytest.approx(2 * stats.t.sf(abs(t), freedom), rel=0.05)


def test_frozen_features_have_a_class_for_each_quarter_turn():
    encoder = ImageEncoder(28 * 28, n_filters=4).eval()
    X = np.random.default_rng(0).integers(0, 256, (3, 64)).astype(np.uint8)
    dataset = encoded(Dataset("x", X, np.array([0, 1, 1])), encoder, turns=4)
    assert dataset.X.shape == (12, encoder.n_outputs)
    assert np.bincount(dataset.y).tolist() == [1, 2] * 4
    turned = X.reshape(3, 8, 8)
    turned = np.rot90(turned, axes=(1, 2)).reshape(3, 64)
    again = encoded(
        Dataset("x", np.ascontiguousarray(turned), np.array([0, 1, 1])), encoder, turns=1
    )
    np.testing.assert_allclose(again.X, dataset.X[3:6], rtol=1e-4, atol=1e-4)


def test_accuracy_is_that_of_the_episodes():
    """One-hot rows and a learner that compares them are always right; a blind one guesses."""
    rows = np.repeat(np.eye(8, dtype=np.float32), 6, axis=0)
    data = Data(
        {"test": Fixed(Dataset("x", rows, np.repeat(np.arange(8), 6)))}, {}, None, Vectors(8)
    )
    data.learner.update(inputs="vectors", n_inputs=8)
    learner = make_learner(data, "transformer", {"n_layers": 0}, 0).eval()
    with torch.no_grad():
        learner.backbone.embedding.weight.copy_(torch.eye(64, 8))
        learner.backbone.embedding.bias.zero_()
    assert accuracy(learner, data, "test", 60) == (1.0, 0.0)
    with torch.no_grad():
        learner.backbone.embedding.weight.zero_()
    assert accuracy(learner, data, "test", 200)[0] == pytest.approx(0.2, abs=0.06)


def test_orders_are_averaged():
    """Averaging over orders changes only networks that depend on the order."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((40, 8)).astype(np.float32)
    data = Data({"test": Fixed(Dataset("x", rows, np.arange(40) // 5))}, {}, None, Vectors(8))
    data.learner.update(inputs="vectors", n_inputs=8)
    transformer = make_learner(data, "transformer", {}, 0).eval()
    snail = make_learner(data, "snail", {"width": 8}, 0).eval()
    for learner, same in ((transformer, True), (snail, False)):
        once, often = (accuracy(learner, data, "test", 50, n_orders=n) for n in (1, 8))
        assert (once == pytest.approx(often, abs=1e-4)) is same


def test_all_data_have_episodes_of_five_ways():
    assert set(DATA) == {"omniglot", "symbolic", "mini_imagenet"}
    assert sampler(Vectors(8)).n_ways == 5


def long_run(tmp_path, folder, *more):
    places = ["--omniglot", str(folder), "--output", str(tmp_path), "--device", "cpu"]
    places += ["--cache", str(tmp_path / "cache")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paper_003_long, "BATCH_SIZE", 4)  # pictures take most of the time
        paper_003_long.main(["--quick", *places, *more])
    return pd.read_csv(tmp_path / "long.csv")


def test_variants_train_side_by_side(tmp_path, folder):
    """Variants do not affect each other, and a second command adds its rows to the file."""
    both = long_run(tmp_path / "both", folder, "--variants", "A1", "A8")
    assert both[["step", "model"]].to_numpy().tolist() == [
        [10, "A1"],
        [10, "A8"],
        [20, "A1"],
        [20, "A8"],
    ]
    assert (tmp_path / "both" / "long.png").stat().st_size > 0
    long_run(tmp_path / "apart", folder, "--variants", "A8")
    rate = ["--variants", "A1", "--rates", "1e-5"]
    apart = long_run(tmp_path / "apart", folder, *rate)
    assert apart["rate"].tolist() == [1e-4, 1e-4, 1e-5, 1e-5]
    assert set(apart["n_latent"]) == {384}
    alone = apart[apart["rate"] == 1e-4].reset_index(drop=True)
    together = both[both["model"] == "A8"].reset_index(drop=True)
    pd.testing.assert_frame_equal(alone, together)


def test_long_training_goes_on(tmp_path, folder, monkeypatch):
    """A resumed run gives the rows of an uninterrupted one, and repeats no step."""
    names = ["--variants", "A1", "A6"]
    whole = long_run(tmp_path / "whole", folder, *names)
    steps, calls = paper_003_long.Together.steps, []

    def killed(self, factor):
        calls.append(factor)
        if len(calls) == 2:
            raise KeyboardInterrupt
        steps(self, factor)

    with monkeypatch.context() as patch:
        patch.setattr(paper_003_long.Together, "steps", killed)
        with pytest.raises(KeyboardInterrupt):
            long_run(tmp_path / "parts", folder, *names)
    parts = long_run(tmp_path / "parts", folder, *names)
    pd.testing.assert_frame_equal(parts, whole)
    assert len(long_run(tmp_path / "parts", folder, *names)) == len(whole)
    next((tmp_path / "parts" / "cache").glob("A1*")).unlink()
    with pytest.raises(SystemExit, match=r"holds runs of \[0, 20\] steps"):
        long_run(tmp_path / "parts", folder, *names)
    again = long_run(tmp_path / "parts", folder, *names[:2])  # makes A1's rows again
    pd.testing.assert_frame_equal(again.sort_values(["step", "model"], ignore_index=True), whole)


def test_long_training_learns(folder):
    """A step at a positive rate changes the weights; a step at rate 0 does not."""
    options = Namespace(omniglot=folder, encoder=None, n_filters=4)
    data = DATA["omniglot"](options)
    draws = paper_003_long.Episodes(data.sources["train"].dataset, "cpu")
    pictures, target = draws.draw(paper_003_long.BATCH_SIZE)
    settings = paper_003_long.settings_of("A1", 1e-3, 16)
    run = paper_003_long.Run(settings, data, 0, pictures[None], target[None], None)
    trained = paper_003_long.Together(lambda: None, [run], "cpu")
    losses = []
    for factor in (0.0, 0.0, *[1.0] * 20):
        before = [p.detach().clone() for p in run.learner.parameters()]
        trained.steps(factor)
        changed = any((a != b).any() for a, b in zip(before, run.learner.parameters()))
        assert changed is (factor > 0)
        losses.append(run.loss.item() - sum(losses))
    assert losses[-1] < losses[0] - 0.05  # on the same batch


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_loss_is_that_of_the_learner(folder, variant):
    """A GPU encodes pictures in another precision, so they are encoded before the comparison."""
    options = Namespace(omniglot=folder, encoder=None, n_filters=4)
    data = DATA["omniglot"](options)
    pictures, target = paper_003_long.Episodes(data.sources["train"].dataset, "cpu").draw(32)
    settings = paper_003_long.settings_of(variant, 1e-3, 16)
    learner = paper_003_long.make_learner(data, settings.backbone, settings.config, 0)
    labels = torch.arange(5).expand(32, -1)
    whole = learner(pictures[:, :5], labels, pictures[:, 5:])
    expected = learner.head.loss(whole, target[:, None])
    found = paper_003_long.loss_of(learner, pictures, labels, target)
    assert found.item() == pytest.approx(expected.item(), abs=1e-6)


def test_episodes_of_a_gpu_are_those_of_drawings(folder, monkeypatch):
    """Drawings of five classes and another one of theirs; each class is rotated as a whole."""
    data = DATA["omniglot"](Namespace(omniglot=folder, encoder=None, n_filters=4))
    dataset = data.sources["train"].dataset
    draws = paper_003_long.Episodes(dataset, "cpu")
    uniform, drawn = draws._uniform, []

    def still(*shape):  # keep classes, rows and quarter turns random, but not the query's class
        drawn.append(uniform(*shape) if len(drawn) in (0, 1, 3) else torch.full(shape, 0.5))
        return drawn[-1]

    class Turned:
        def __init__(self, quarters):
            self.quarters = quarters

        def integers(self, high, size):
            return np.full(size, self.quarters)

        def uniform(self, low, high, size):
            return np.zeros(size)

    monkeypatch.setattr(draws, "_uniform", still)
    torch.manual_seed(0)
    pictures, target = draws.draw(50)
    drawings = Drawings(paper_003_long.SIDE)
    known = np.concatenate([drawings(dataset.X, dataset.y, Turned(q)) for q in range(4)])
    exact = {"compute_mode": "donot_use_mm_for_euclid_dist"}
    distances = torch.cdist(pictures.flatten(0, 1), torch.from_numpy(known), **exact)
    assert distances.amin(1).max() < 1e-3
    quarter, row = np.divmod(distances.argmin(1).view(50, 6).numpy(), len(dataset.X))
    classes = dataset.y[row]
    assert (target == 2).all()
    assert (classes[:, 5] == classes[:, 2]).all()
    assert (quarter[:, 5] == quarter[:, 2]).all()
    assert (row[:, 5] != row[:, 2]).all()
    assert all(len(set(episode)) == 5 for episode in classes[:, :5])
    assert (quarter[:, :5] == (4 * drawn[3].numpy()).astype(int)).all()

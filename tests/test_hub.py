"""Weights shared through a folder or a hub are the same when they return; anything else is refused.

The real client runs in separate processes and talks to the hub of ``hub_server.py``.
"""

import json
import multiprocessing
import os
import pickle
import runpy
import socket
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
import torch
from hub_server import Hub, Repository
from sklearn.base import clone
from test_weights import CONFIG, Bomb, small_learner

from sklearn_meta import (
    AmortizedGMM,
    AmortizedOutlierDetector,
    MANNClassifier,
    MetaGPRegressor,
    MetaSemiSupervisedClassifier,
)
from sklearn_meta.backbones import VSA
from sklearn_meta.weights import hub as hub_module
from sklearn_meta.weights import load_learner, save_pretrained

NAME = "someone/small-vsa"
X = np.random.default_rng(0).normal(size=(12, 3))
Y = np.array(["a", "b"] * 3)


def files_of(learner, folder, **card):
    """Return the files that ``save_pretrained`` writes, as a hub holds them."""
    save_pretrained(learner, folder, **card)
    return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def is_learner(learner, seed):
    expected = small_learner(seed).state_dict()
    return all(torch.equal(t, expected[name]) for name, t in learner.state_dict().items())


def fitted(name, **options):
    return MetaSemiSupervisedClassifier.from_pretrained(name, **options).fit(X[:6], Y)


def fitted_by_backbone(name):
    return MetaSemiSupervisedClassifier(backbone=name).fit(X[:6], Y)


def begin(environment):
    """Reset a forked process: forget the client's modules, so that it reads these settings anew."""
    for name in [name for name in sys.modules if name.split(".")[0] == "huggingface_hub"]:
        del sys.modules[name]
    for name in [name for name in os.environ if name.startswith(("HF_", "HUGGING"))]:
        del os.environ[name]
    os.environ |= {"NO_PROXY": "*", "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
    os.environ |= {"HF_HUB_DISABLE_PROGRESS_BARS": "1", **environment}


class Client:
    """Calls functions in a process with its own environment and cache."""

    def __init__(self, **environment):
        context = multiprocessing.get_context("fork")  # spawned, it would import torch anew
        self.pool = ProcessPoolExecutor(1, context, begin, (environment,))

    def __call__(self, function, *arguments, **options):
        return self.pool.submit(function, *arguments, **options).result(timeout=60)


@pytest.fixture(scope="module")
def server():
    pytest.importorskip("huggingface_hub")
    with Hub() as hub:
        yield hub


@pytest.fixture(scope="module")
def client(server, tmp_path_factory):
    client = Client(HF_ENDPOINT=server.url, HF_HOME=str(tmp_path_factory.mktemp("hf")))
    yield client
    client.pool.shutdown()


@pytest.fixture
def hub(server, tmp_path):
    """The hub with one repository: seed 0 at tag v1, seed 1 on main; no request so far."""
    repository = Repository()
    repository.refs["v1"] = repository.commit(files_of(small_learner(0), tmp_path / "0", n=0))
    repository.commit(files_of(small_learner(1), tmp_path / "1", n=1))
    server.repositories = {NAME: repository}
    server.broken, server.broken_files, server.reason = None, "", None
    server.requests.clear()
    return server


# Folders


@pytest.fixture
def folder(tmp_path):
    save_pretrained(small_learner(), tmp_path / "mine", note="of a test")
    return tmp_path / "mine"


def test_a_file_does_not_say_from_which_hub_it_came(folder):
    card = json.loads((folder / "model.json").read_text())
    (folder / "model.json").write_text(json.dumps({**card, "hub": f"hub:{NAME}@{'0' * 40}"}))
    estimator = MetaSemiSupervisedClassifier.from_pretrained(folder)
    assert estimator.backbone == folder and "hub" not in estimator.learner_.card


def test_round_trip_through_a_folder(folder, tmp_path):
    assert sorted(path.name for path in folder.iterdir()) == ["model.json", "model.safetensors"]
    estimator = fitted(folder, transductive=False)
    assert estimator.backbone == folder and not estimator.transductive
    assert is_learner(estimator.learner_, 0)
    assert estimator.learner_.card["note"] == "of a test"
    expected = MetaSemiSupervisedClassifier(small_learner().eval(), transductive=False)
    proba = estimator.predict_proba(X)
    np.testing.assert_array_equal(proba, expected.fit(X[:6], Y).predict_proba(X))
    np.testing.assert_array_equal(
        proba,
        clone(estimator).fit(X[:6], Y).predict_proba(X),  # the learner stays, too
    )
    path = estimator.save_pretrained(tmp_path / "again", seed=3)
    again = fitted(str(path.parent)).learner_
    assert is_learner(again, 0)
    assert again.card == {**estimator.learner_.card, "seed": 3}  # the card is kept and extended


def test_weights_of_the_package_and_meta_fitted_ones_can_be_shared(tmp_path):
    estimator = MetaSemiSupervisedClassifier.from_pretrained("default")
    assert estimator.backbone == "default"
    estimator.save_pretrained(tmp_path)
    assert load_learner(tmp_path).card == load_learner("default").card
    estimator.set_params(backbone=small_learner(1)).meta_fit(
        {"a": (X, np.tile([0, 1], 6))}, max_steps=1, n_shots=(1,), n_unlabelled=1, verbose=False
    )
    estimator.save_pretrained(tmp_path, recipe="one step")
    again = MetaSemiSupervisedClassifier.from_pretrained(tmp_path).learner_
    assert again.card.keys() == {"config", "n_parameters", "sha256", "recipe", "datasets"}
    assert again.card["datasets"] == ["a"]
    expected = estimator.learner_.state_dict()
    assert all(torch.equal(t, expected[name]) for name, t in again.state_dict().items())


@pytest.mark.parametrize(
    "kind", [MetaGPRegressor, AmortizedOutlierDetector, AmortizedGMM, MANNClassifier]
)
def test_default_is_a_name_for_every_estimator_that_has_weights(kind):
    estimator = kind.from_pretrained("default")
    assert estimator.learner_.task == estimator._task
    assert estimator.backbone == kind()._weights_name()
    with pytest.raises(ValueError, match=f"'prior' was meta-trained for .*{kind.__name__} is for"):
        kind.from_pretrained("prior")


@pytest.mark.parametrize("name", ["default_mixture", "default_mann", "english_reviews"])
def test_weights_of_another_task_are_refused_at_once(name):
    with pytest.raises(ValueError, match=f"{name!r} was meta-trained for .* Choose other weights"):
        MetaSemiSupervisedClassifier.from_pretrained(name)


def test_what_cannot_be_shared_or_loaded_says_so(folder, tmp_path):
    module = MetaSemiSupervisedClassifier(VSA(**CONFIG))
    with pytest.raises(ValueError, match="Only a learner built from names"):
        module.save_pretrained(tmp_path / "module")
    with pytest.raises(ValueError, match="There are no meta-trained .*: call meta_fit first"):
        MetaSemiSupervisedClassifier("vsa").save_pretrained(tmp_path / "vsa")
    with pytest.raises(OSError):
        save_pretrained(small_learner(), folder / "model.json" / "below_a_file")
    with pytest.raises(
        ValueError, match="(?s)head='gp' does not fit.*meta-trained with head='proto"
    ):
        MetaSemiSupervisedClassifier.from_pretrained(folder, head="gp")
    with pytest.raises(ValueError, match="No weights 'vsa'"):
        MetaSemiSupervisedClassifier.from_pretrained("vsa")
    raw = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(raw[:-1] + bytes([raw[-1] ^ 1]))
    with pytest.raises(ValueError, match="damaged.*sha256"):
        MetaSemiSupervisedClassifier.from_pretrained(folder)


# What a name means


@pytest.mark.parametrize(
    "name, expected",
    [
        ("a/b", ("a/b", None)),
        ("a/b@v1", ("a/b", "v1")),
        ("hub:a/b", ("a/b", None)),
        ("hub:a-1/b_2.c@refs/pr/1", ("a-1/b_2.c", "refs/pr/1")),
        ("hub:a/b.safetensors", ("a/b.safetensors", None)),
        ("a/b.safetensors", None),
        ("a", None),
        ("a/b/c", None),
        ("./a/b", None),
        ("../b", None),
        ("/a/b", None),
        ("a/b@", None),
        ("a/b c", None),
        (Path("a/b"), None),
        (None, None),
    ],
)
def test_ids_are_told_from_paths(name, expected):
    assert hub_module.as_hub_id(name) == expected


@pytest.mark.parametrize("name", ["hub:", "hub:a", "hub:a/b/c", "hub:../b", "hub:a/b@"])
def test_the_prefix_before_something_else_is_an_error(name):
    with pytest.raises(ValueError, match="is not a hub id: it must be 'hub:owner/name'"):
        load_learner(name)


def test_a_path_that_exists_wins_and_the_prefix_means_the_hub(tmp_path, monkeypatch):
    """Without the client installed, any request to the hub is an ImportError."""
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    monkeypatch.chdir(tmp_path)
    for name in ("owner/name", "owner/name@v1"):
        with pytest.raises(ImportError, match=r'pip install "sklearn_meta\[hub\]"'):
            load_learner(name)
        save_pretrained(small_learner(), name)
        save_pretrained(small_learner(), Path(f"hub:{name}"))  # a folder, as every Path is
        assert is_learner(load_learner(name), 0)
        for operation in (load_learner, fitted, fitted_by_backbone):
            with pytest.raises(ImportError, match="hub:owner/name.*pip install"):
                operation(f"hub:{name}")
        with pytest.raises(ImportError, match="pip install"):
            save_pretrained(small_learner(), f"hub:{name}")
    runpy.run_path(hub_module.__file__)  # importing our module needs no client
    with pytest.raises(ValueError, match="No weights 'owner/other'"):
        load_learner(Path("owner/other"))
    with pytest.raises(ValueError, match="No weights 'owner'.*folder with a model.safetensors"):
        load_learner("owner")
    for name in ("owner/name", "default", "hub:owner/name@v1"):
        with pytest.raises(
            ValueError, match=f"needs a hub repository named without a revision.*{name}"
        ):
            load_learner(name, revision="v1")


# The hub


def test_round_trip_through_the_hub(hub, client):
    hub.repositories["someone/new"] = Repository()
    hub.repositories["someone/new"].commit({"README.md": b"# Mine\n"})
    name = client(save_pretrained, small_learner(2), "hub:someone/new", note="of a test")
    commit = hub.repositories["someone/new"].refs["main"]
    assert name == f"hub:someone/new@{commit}"
    tree = hub.repositories["someone/new"].commits[commit]
    assert sorted(tree) == ["README.md", "model.json", "model.safetensors"]
    learner = client(load_learner, "someone/new")
    assert is_learner(learner, 2)
    assert learner.card["hub"] == name and learner.card["note"] == "of a test"
    # Fetched weights, saved unchanged, are the same commit again.
    assert client(save_pretrained, learner, "hub:someone/new", note="of a test") == name


def test_an_estimator_remembers_the_commit(hub, client):
    v1 = hub.repositories[NAME].refs["v1"]
    estimator = client(fitted, f"{NAME}@v1")
    assert estimator.backbone == estimator.learner_.card["hub"] == f"hub:{NAME}@{v1}"
    by_backbone = client(fitted_by_backbone, f"hub:{NAME}@v1")
    assert by_backbone.learner_.card["hub"] == f"hub:{NAME}@{v1}"
    # Both were pickled to this process, which has no hub: the pickles contain the weights.
    expected = MetaSemiSupervisedClassifier(small_learner().eval()).fit(X[:6], Y).predict_proba(X)
    for found in (estimator, by_backbone, clone(estimator).fit(X[:6], Y)):
        np.testing.assert_array_equal(found.predict_proba(X), expected)


def test_each_revision_has_its_own_weights(hub, client, tmp_path):
    refs = hub.repositories[NAME].refs
    for revision, seed in [("v1", 0), ("main", 1), (refs["v1"], 0), (refs["main"], 1), (None, 1)]:
        learner = client(load_learner, NAME, revision=revision, cache_dir=tmp_path / "cache")
        assert is_learner(learner, seed) and learner.card["n"] == seed
        assert learner.card["hub"] == f"hub:{NAME}@{refs['v1' if seed == 0 else 'main']}"
    hub.requests.clear()
    pinned = client(load_learner, f"{NAME}@{refs['v1']}", cache_dir=tmp_path / "cache")
    assert is_learner(pinned, 0) and not hub.requests  # a commit never changes
    hub.repositories[NAME].commit(files_of(small_learner(3), tmp_path / "3"))
    assert is_learner(client(load_learner, NAME, cache_dir=tmp_path / "cache"), 3)


def test_card_and_weights_are_of_one_commit_though_the_branch_moves(hub, client, tmp_path):
    later = files_of(small_learner(4), tmp_path / "4")

    class Moving(Repository):
        n_asked = 0

        def resolve(self, revision):
            self.n_asked += 1
            if self.n_asked == 4:  # after two HEAD requests and a GET of the card
                self.commit(later)
            return super().resolve(revision)

    hub.repositories[NAME] = Moving()
    first = hub.repositories[NAME].commit(files_of(small_learner(3), tmp_path / "3"))
    learner = client(load_learner, f"hub:{NAME}", cache_dir=tmp_path / "cache")
    assert is_learner(learner, 3) and learner.card["hub"] == f"hub:{NAME}@{first}"
    assert hub.repositories[NAME].refs["main"] != first
    offline = {"cache_dir": tmp_path / "cache", "local_files_only": True}
    assert is_learner(client(load_learner, NAME, **offline), 3)


def test_an_update_that_fails_leaves_the_weights_before_it(hub, client, tmp_path):
    repository, options = hub.repositories[NAME], {"cache_dir": tmp_path / "cache"}
    client(load_learner, NAME, **options)
    second = repository.commit(files_of(small_learner(4), tmp_path / "4"))
    hub.broken, hub.broken_files = 403, "model.safetensors"
    with pytest.raises(OSError, match="403"):
        client(load_learner, NAME, **options)
    (there,) = tmp_path.glob(f"cache/*/snapshots/{second}/*")
    assert there.name == "model.json"
    assert is_learner(client(load_learner, NAME, **options, local_files_only=True), 1)
    hub.broken_files = ""  # all files, as without a connection
    assert is_learner(client(load_learner, NAME, **options), 1)
    hub.broken = None
    assert is_learner(client(load_learner, NAME, **options), 4)
    assert is_learner(client(load_learner, NAME, **options, local_files_only=True), 4)


def test_an_update_with_a_wrong_byte_leaves_the_weights_before_it(hub, client, tmp_path):
    """The error names only the update's files for removal."""
    repository, options = hub.repositories[NAME], {"cache_dir": tmp_path / "cache"}
    offline = {**options, "local_files_only": True}
    client(load_learner, NAME, **options)
    files = files_of(small_learner(4), tmp_path / "4")
    repository.commit({**files, **flip_a_byte(files)})
    with pytest.raises(ValueError, match="are refused: .* remove ") as caught:
        client(load_learner, NAME, **options)
    assert is_learner(client(load_learner, NAME, **offline), 1)
    for path in str(caught.value).rpartition(" remove ")[2].removesuffix(".").split(" and "):
        Path(path).unlink()
    assert is_learner(client(load_learner, NAME, **offline), 1)
    repository.commit(files)
    assert is_learner(client(load_learner, NAME, **options), 4)
    assert is_learner(client(load_learner, NAME, **offline), 4)


def flip_a_byte(files):
    raw = bytearray(files["model.safetensors"])
    raw[-1] ^= 1
    return {"model.safetensors": bytes(raw)}


def change_card(files, **changes):
    return {"model.json": json.dumps({**json.loads(files["model.json"]), **changes}).encode()}


def other_config(files):
    return change_card(files, config={**small_learner().config, "backbone_config": {}})


def foreign_weights(files):
    return {"model.safetensors": torch.zeros(100).numpy().tobytes()}


@pytest.mark.parametrize(
    "tamper, message",
    [
        (flip_a_byte, "damaged or not the file its card describes"),
        (foreign_weights, "damaged or not the file its card describes"),
        (lambda files: change_card(files, sha256="0" * 64), "damaged or not the file"),
        (lambda files: change_card(files, sha256=None), "damaged or not the file"),
        (other_config, "does not fit the architecture its card names"),
        (lambda files: {"model.json": b"{"}, "no readable card model.json"),
        (lambda files: {"model.json": pickle.dumps({"config": {}})}, "no readable card model.json"),
    ],
)
def test_what_was_tampered_with_is_refused(hub, client, tmp_path, tamper, message):
    repository = hub.repositories[NAME]
    commit = repository.commit(tamper(repository.commits[repository.refs["main"]]))
    cache = tmp_path / "cache"
    with pytest.raises(ValueError, match=f"{NAME}@{commit} are refused: .*{message}") as caught:
        client(load_learner, NAME, cache_dir=cache)
    assert f"remove {cache / ('models--' + NAME.replace('/', '--'))}" in str(caught.value)
    with pytest.raises(ValueError, match="are refused"):  # from the cache, too
        client(fitted, f"{NAME}@{commit}", cache_dir=cache, local_files_only=True)
    with pytest.raises(FileNotFoundError, match="is not in the cache"):  # nothing usable is there
        client(fitted, NAME, cache_dir=cache, local_files_only=True)
    assert is_learner(client(load_learner, f"{NAME}@v1", cache_dir=cache), 0)


@pytest.mark.parametrize("dump", [pickle.dumps, lambda bomb: pickle.dumps([bomb], protocol=2)])
def test_a_pickle_on_the_hub_is_never_unpickled(hub, client, tmp_path, dump):
    trace = tmp_path / "exploded"
    bomb = dump(Bomb(trace))
    repository = hub.repositories[NAME]
    files = repository.commits[repository.refs["main"]]
    repository.commit({"model.safetensors": bomb, "model.pkl": bomb, "pytorch_model.bin": bomb})
    repository.commit(change_card(files, sha256=sha256(bomb).hexdigest()))
    with pytest.raises(ValueError, match="not a safetensors file.*pickles above all, are not read"):
        client(load_learner, NAME, cache_dir=tmp_path / "cache")
    assert not trace.exists()
    assert {path.rpartition("/")[2] for _, path in hub.requests if "resolve" in path} == {
        "model.json",
        "model.safetensors",
    }
    pickle.loads(bomb)  # the bomb does work
    assert trace.exists()


def test_what_the_hub_does_not_have_is_said(hub, client, tmp_path):
    options = {"cache_dir": tmp_path}
    with pytest.raises(ValueError, match="No repository 'someone/else' on http.*private one"):
        client(load_learner, "someone/else", **options)
    with pytest.raises(ValueError, match=f"{NAME}' has no branch, tag or commit 'v9'"):
        client(load_learner, f"{NAME}@v9", **options)
    with pytest.raises(ValueError, match=f"{NAME}' has no branch, tag or commit '{'0' * 40}'"):
        client(load_learner, NAME, revision="0" * 40, **options)
    hub.repositories["a/text"] = Repository()
    hub.repositories["a/text"].commit({"config.json": b"{}"})
    with pytest.raises(ValueError, match="'a/text' holds no weights of this package"):
        client(load_learner, "a/text", **options)
    hub.repositories["a/empty"] = Repository()
    with pytest.raises(ValueError, match="'a/empty' has no branch, tag or commit 'main'"):
        client(load_learner, "a/empty", **options)
    with pytest.raises(ValueError, match="hub:a--b/c is not a hub id"):
        client(load_learner, "hub:a--b/c", **options)
    with pytest.raises(ValueError, match="No repository 'someone/else'.*hf repo create"):
        client(save_pretrained, small_learner(), "hub:someone/else")
    hub.broken, hub.reason = 403, "GatedRepo"
    with pytest.raises(ValueError, match=f"'{NAME}' is gated.*ask for access at http.*/{NAME}, "):
        client(load_learner, NAME, cache_dir=tmp_path / "gated")
    hub.reason = None
    with pytest.raises(OSError, match="hub:someone/else: could not write to it.*403"):
        client(save_pretrained, small_learner(), "hub:someone/else")


def test_without_an_answer_the_cache_serves(hub, client, tmp_path):
    hub.broken = 403
    with pytest.raises(OSError, match=f"hub:{NAME} is not in the cache, and the hub fails: .*403"):
        client(load_learner, NAME, cache_dir=tmp_path)
    hub.broken = None
    client(load_learner, NAME, cache_dir=tmp_path)
    hub.broken = 503
    assert is_learner(client(load_learner, NAME, cache_dir=tmp_path), 1)
    hub.requests.clear()
    assert is_learner(client(load_learner, NAME, cache_dir=tmp_path, local_files_only=True), 1)
    with pytest.raises(OSError, match=f"hub:{NAME}@v1 is not in the cache.*may not be contacted"):
        client(load_learner, f"{NAME}@v1", cache_dir=tmp_path, local_files_only=True)
    assert not hub.requests


def test_a_mistyped_path_is_told_at_once_where_there_is_no_hub(tmp_path):
    with socket.socket() as closed:  # bound, but not listening
        closed.bind(("127.0.0.1", 0))
        nowhere = f"http://127.0.0.1:{closed.getsockname()[1]}"
        client = Client(HF_ENDPOINT=nowhere, HF_HOME=str(tmp_path))
        try:
            start = time.monotonic()
            with pytest.raises(OSError, match="weights/mine.*the hub fails.*There is no path"):
                client(load_learner, "weights/mine", cache_dir=tmp_path)
        finally:
            client.pool.shutdown()
    assert time.monotonic() - start < 8  # the client's own retries take 23 seconds


def test_a_hub_that_is_busy_is_asked_again_for_a_name_that_may_be_a_path(hub, client, tmp_path):
    hub.busy = 2
    assert is_learner(client(load_learner, NAME, cache_dir=tmp_path), 1)
    assert not hub.busy


def test_offline_mode_takes_the_cache_and_asks_nobody(hub, client, tmp_path):
    name = client(load_learner, NAME, cache_dir=tmp_path / "warm").card["hub"]
    hub.requests.clear()
    offline = Client(HF_ENDPOINT=hub.url, HF_HOME=str(tmp_path), HF_HUB_OFFLINE="1")
    try:
        for warm in (NAME, f"hub:{NAME}@main", name):
            estimator = offline(fitted, warm, cache_dir=tmp_path / "warm")
            assert is_learner(estimator.learner_, 1) and estimator.backbone == name
        for cold in (f"{NAME}@v1", "someone/else"):
            with pytest.raises(OSError, match=f"{cold} is not in the cache.*may not be contacted"):
                offline(load_learner, cold, cache_dir=tmp_path / "warm")
        with pytest.raises(OSError, match="not in the cache.*Fetch it once with a connection"):
            offline(load_learner, NAME, cache_dir=tmp_path / "cold")
    finally:
        offline.pool.shutdown()
    assert not hub.requests

"""Cards and weights from strangers: excessive requests, and what is not weights, are refused."""

import hashlib
import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from test_weights import rewrite_card, small_learner

from sklearn_meta import MANNClassifier, MetaLSTMTagger
from sklearn_meta.weights import load_learner, save_learner


@pytest.fixture
def saved(tmp_path):
    return save_learner(small_learner(), tmp_path / "strange.safetensors")


@pytest.mark.parametrize("n_layers", [10**4, 10**6, 10**9])
def test_a_card_that_asks_for_layers_without_end_is_refused_at_once(saved, n_layers):
    """It must not take hours, or all memory: a list of 10**9 items would."""
    asked = {"backbone_config": {"n_layers": n_layers}}
    rewrite_card(saved, config={**small_learner().config, **asked})
    with pytest.raises(
        ValueError, match="than the number of bytes in the file|many times more numbers than"
    ):
        load_learner(saved)


def test_a_memory_that_no_tensor_shows_is_bounded_too(tmp_path):
    path = save_learner(MANNClassifier("mann")._new_learner("mann"), tmp_path / "m.safetensors")
    config = json.loads(path.with_suffix(".json").read_text())["config"]
    config["backbone_config"]["n_slots"] = 10**10
    rewrite_card(path, config=config)
    with pytest.raises(
        ValueError, match="n_slots=10000000000 is more than the number of bytes in the file"
    ):
        load_learner(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t * np.nan, "bias holds numbers that are not finite"),
        (lambda t: t.double() + 1e300, "bias holds numbers that are not finite"),  # beyond float32
        (lambda t: t.to(torch.complex64), "bias holds torch.complex64 instead of torch.float32"),
        (lambda t: t.bool(), "bias holds torch.bool instead of torch.float32"),
    ],
)
def test_weights_that_are_no_finite_numbers_are_refused(saved, change, message):
    state = load_file(saved)
    name = "backbone.blocks.0.feed_forward.0.bias"
    save_file(state | {name: change(state[name])}, saved)
    rewrite_card(saved, sha256=hashlib.sha256(saved.read_bytes()).hexdigest())
    with pytest.raises(ValueError, match=f"does not fit the architecture.*{message}"):
        load_learner(saved)


def test_a_score_that_forbids_is_a_number(tmp_path):
    tagger = MetaLSTMTagger(width=4, embedding_size=4, max_epochs=1, wide=False, random_state=0)
    learner = tagger.meta_fit({"a": ([["a", "b"]] * 4, [["O", "X"]] * 4)}, verbose=False).learner_
    with torch.no_grad():
        learner.heads[0].crf.transitions[0, 1] = -torch.inf
    again = load_learner(save_learner(learner, tmp_path / "tags.safetensors"))
    assert again.heads[0].crf.transitions[0, 1] == -torch.inf


def test_half_precision_is_read(saved):
    state = {name: tensor.clone() for name, tensor in load_file(saved).items()}  # copies, not views
    save_file({name: tensor.half() for name, tensor in state.items()}, saved)
    rewrite_card(saved, sha256=hashlib.sha256(saved.read_bytes()).hexdigest())
    for name, tensor in load_learner(saved).state_dict().items():
        assert torch.equal(tensor, state[name].half().float())


def test_a_shape_beyond_integers_is_refused(saved):
    header = b'{"a":{"dtype":"F32","shape":[0,4611686018427387904,8],"data_offsets":[0,0]}}'
    saved.write_bytes(len(header).to_bytes(8, "little") + header)
    rewrite_card(saved, sha256=hashlib.sha256(saved.read_bytes()).hexdigest())
    with pytest.raises(ValueError, match="is not a safetensors file"):
        load_learner(saved)


def test_weights_are_on_the_cpu_wherever_a_caller_makes_tensors(saved):
    with torch.device("meta"):
        learner = load_learner(saved)
    assert {tensor.device.type for tensor in learner.state_dict().values()} == {"cpu"}


def test_a_card_that_is_json_to_python_alone_is_refused(saved):
    rewrite_card(saved, score=float("nan"))
    with pytest.raises(ValueError, match="NaN is not JSON"):
        load_learner(saved)

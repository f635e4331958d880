"""Under torchrun several processes make the same run as one, and end if one of them dies."""

import json
import os
import time
from pathlib import Path
from signal import SIGKILL

import numpy as np
import pytest
import test_training as t
import torch
from processes import ended, started
from safetensors.torch import load_file, save_file
from torch.distributed import run
from torch.distributed.elastic.utils.distributed import get_free_port

from sklearn_meta import MetaLSTMClassifier, training
from sklearn_meta.distributed import OneProcess, is_first_process
from sklearn_meta.folders import CHECKPOINT

pytest.importorskip("accelerate")

HERE = Path(__file__).parent
SETTINGS = {
    **{"batch_size": 4, "n_groups": 2, "precision": "float32"},
    **{"learning_rate": 1e-3, "ema_decay": 0.5, "rate_factors": {"head.*": 3.0}},
}

#: The program that torchrun starts. Garbage collection during imports would take a second.
PROGRAM = """
import gc
gc.disable()
import sys
sys.path.insert(0, sys.argv[1])
from test_distributed import train_and_save
train_and_save(*sys.argv[2:])
"""


def train_and_save(checkpoints, results, killed_at=None):
    """Run five epochs, of which this process does its part; rank 1 kills itself at a step."""
    rank = os.environ["RANK"]
    learner = t.new_learner()
    learner.register_buffer("rank", torch.zeros(()))

    def count(*_):  # in each forward pass, as batch norm does
        learner.rank.fill_(int(rank))

    learner.register_forward_hook(count)
    killed = killed_at is not None and rank == "1"
    callbacks = [t.At(t.kill, step=int(killed_at))] if killed else []
    _, history = t.train(checkpoints, learner, **SETTINGS, callbacks=callbacks)
    assert learner.rank == 0
    del learner.rank
    save_file(learner.state_dict(), f"{results}/{rank}.safetensors")
    epochs = [{k: v for k, v in e.items() if k not in ("batches", "dur")} for e in history]
    Path(results, f"{rank}.json").write_text(json.dumps(epochs))


def run_torchrun(arguments, stderr):
    """Run torchrun as its own program, in a process that has imported torch."""
    os.environ |= {"PYTHONPATH": str(HERE.parent), "OMP_NUM_THREADS": "1"}
    os.dup2(os.open(stderr, os.O_WRONLY | os.O_CREAT), 2)
    run.main(arguments)


def torchrun(n_processes, checkpoints, results):
    """Return exit status and stderr of the program in ``n_processes``; fail after three minutes."""
    results.mkdir(exist_ok=True)
    program, stderr = results / "program.py", results / "stderr"
    program.write_text(PROGRAM)
    launch = ["--standalone", f"--nproc_per_node={n_processes}"]
    arguments = [*launch, str(program), str(HERE), str(checkpoints), str(results)]
    return ended(started(run_torchrun, arguments, stderr)), stderr.read_text()


def as_rank(rank, port, *arguments):
    """Run as one of two processes, with the variables that torchrun sets."""
    os.environ |= {
        **{"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)},
        **{"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"},
        "OMP_NUM_THREADS": "1",  # otherwise accelerate uses all cores
    }
    train_and_save(*arguments)


def pair(*arguments):
    """Return exit statuses of two processes, which need not import the package anew."""
    port = get_free_port()
    both = [started(as_rank, rank, port, *arguments) for rank in range(2)]
    return [ended(process) for process in both]


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """Results of a run in two processes."""
    folder = tmp_path_factory.mktemp("two")
    assert pair(folder / "checkpoints", folder) == [0, 0]
    return folder


def losses(file):
    epochs = json.loads(file.read_text())
    names = sorted(
        name for name in epochs[0] if name.endswith("_loss") or name.startswith("valid_accuracy")
    )
    assert "valid_accuracy_1_shots" in names
    return np.array([[epoch[name] for name in names] for epoch in epochs], dtype=float)


def flat(state):
    return torch.cat([state[name].flatten() for name in sorted(state)])


def weights(file):
    return flat(load_file(file))


def test_two_processes_make_the_run_of_one(two, tmp_path):
    learner, history = t.train(**SETTINGS)
    (tmp_path / "one.json").write_text(
        json.dumps([{k: v for k, v in epoch.items() if k != "batches"} for epoch in history])
    )
    np.testing.assert_allclose(losses(two / "0.json"), losses(tmp_path / "one.json"), rtol=2e-4)
    ours, start = flat(learner.state_dict()), flat(t.new_learner().state_dict())
    # AdamW makes full steps even for gradients of mere rounding, so compare the mean.
    difference = (weights(two / "0.safetensors") - ours).abs().mean()
    assert difference < 0.02 * (ours - start).abs().mean()


def test_processes_agree_to_the_bit(two):
    assert torch.equal(weights(two / "0.safetensors"), weights(two / "1.safetensors"))
    np.testing.assert_array_equal(losses(two / "0.json"), losses(two / "1.json"))


def test_a_process_that_dies_ends_the_run_which_torchrun_resumes(two, tmp_path):
    start = time.monotonic()
    first, second = pair(tmp_path, tmp_path, 5)
    assert time.monotonic() - start < 120
    assert second == -SIGKILL and first != 0
    assert not list(tmp_path.glob("*.json"))
    assert (tmp_path / CHECKPOINT).is_file()
    status, stderr = torchrun(2, tmp_path, tmp_path / "results")
    assert status == 0, stderr
    np.testing.assert_array_equal(losses(tmp_path / "results" / "0.json"), losses(two / "0.json"))
    resumed = weights(tmp_path / "results" / "0.safetensors")
    assert torch.equal(resumed, weights(two / "0.safetensors"))


def test_processes_that_cannot_share_a_batch_are_told_so(monkeypatch):
    class Three:
        rank, count, device = 0, 3, "cpu"

    monkeypatch.setattr(training, "processes", lambda device: Three())
    with pytest.raises(ValueError, match="batch_size=4 cannot be shared equally by 3 processes"):
        t.train(batch_size=4)


def test_of_more_processes_than_groups_each_takes_one_group(monkeypatch):
    class FirstOfTwo(OneProcess):
        count = 2

        def gradients(self, module, complete):
            assert complete
            return super().gradients(module, complete)

    monkeypatch.setattr(training, "processes", FirstOfTwo)
    t.train(batch_size=4, n_groups=1, max_steps=2)


@pytest.mark.parametrize("rank, n_files", [(0, 1), (1, 0)])
def test_each_process_reads_texts_alone_and_the_first_writes(monkeypatch, tmp_path, rank, n_files):
    texts = (["a fine film", "a dull film"] * 4, [1, 0] * 4)
    classifier = MetaLSTMClassifier(width=8, embedding_size=8, max_epochs=1, wide=False)
    expected = classifier.fit(*texts).predict_proba(texts[0])
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", str(rank))
    np.testing.assert_array_equal(classifier.fit(*texts).predict_proba(texts[0]), expected)
    classifier.meta_fit({"films": texts}, checkpoint_dir=tmp_path, verbose=False)
    assert len(list(tmp_path.iterdir())) == n_files


@pytest.mark.parametrize(
    "rank, size, writes",
    [
        (None, None, True),
        (1, None, True),
        (1, 1, True),
        (1, 2, False),
        (1, "", True),
        ("", 2, True),
    ],
)
def test_a_process_that_trains_alone_writes(monkeypatch, rank, size, writes):
    for name, value in (("RANK", rank), ("WORLD_SIZE", size)):
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, str(value))
    assert is_first_process() == writes

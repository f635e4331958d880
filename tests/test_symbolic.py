"""Symbolic regression: the fitted networks, their independence of each other, and the files."""

import os
import signal
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from processes import ended, started
from torch import nn
from torch.nn.utils import vector_to_parameters

from sklearn_meta.heads import OneHotLabels
from sklearn_meta.tasks import ClassSequences, Vectors, as_source, symbolic
from sklearn_meta.tasks.symbolic import SymbolicNetworks, make_symbolic_regression

ARRAYS = ("weights", "functions", "coefficients", "losses")

#: With so few steps some networks have to begin anew.
HARD = {"n_functions": 3, "n_networks": 2, "hidden": (3,), "max_iter": 60, "max_restarts": 50}


def assert_same(first, second):
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name), strict=True)


def outputs(weights, hidden, x):
    """Outputs of networks at points x, in double precision and without torch: (n, n_points)."""
    found = []
    for row in weights.astype(np.float64):
        out, n_in = x[:, None], 1
        for depth, n_out in enumerate([*hidden, 1]):
            matrix, bias, row = np.split(row, [n_in * n_out, n_in * n_out + n_out])
            out = (np.tanh(out) if depth else out) @ matrix.reshape(n_out, n_in).T + bias
            n_in = n_out
        assert not len(row)
        found.append(out[:, 0])
    return np.array(found)


@pytest.fixture(scope="module")
def networks():
    return make_symbolic_regression(30, 4)


@pytest.fixture(scope="module")
def hard():
    return make_symbolic_regression(**HARD)


# The networks


@pytest.mark.parametrize(
    ("hidden", "threshold", "n_points"),
    [((16,), 1e-3, 32), ((5,), 3e-3, 3), ((8, 4), 1e-3, 21), ((1,), 0.1, 10)],
)
def test_every_loss_is_below_the_threshold(hidden, threshold, n_points):
    found = make_symbolic_regression(
        9, 3, hidden=hidden, threshold=threshold, n_points=n_points, random_state=3
    )
    x = np.linspace(-1, 1, n_points)
    y = found.coefficients.astype(np.float64) @ np.stack([x**0, x, x**2])
    losses = ((outputs(found.weights, hidden, x) - y) ** 2).mean(1)
    np.testing.assert_allclose(found.losses, losses, rtol=1e-3, atol=1e-7)
    assert found.losses.max() < threshold
    assert losses.max() < threshold * 1.001
    # Fitting stops at the first step below the threshold: losses are hardly lower, but for luck.
    assert np.median(losses) > threshold / 3


def test_shapes_and_types(networks):
    assert networks.weights.shape == (120, 16 + 16 + 16 + 1)
    assert networks.losses.shape == (120,)
    assert {getattr(networks, name).dtype for name in set(ARRAYS) - {"functions"}} == {
        np.dtype(np.float32)
    }
    assert networks.functions.dtype == np.int64
    assert np.array_equal(networks.functions, np.repeat(range(30), 4))
    assert repr(networks) == "SymbolicNetworks(120 networks of 30 functions)"


def test_functions_have_the_degrees_asked_for_in_turn(networks):
    nonzero = networks.coefficients != 0
    assert np.array_equal(nonzero.sum(1), networks.functions % 3 + 1)
    assert nonzero[:, 0].all()
    lines = make_symbolic_regression(4, 1, degrees=[1], threshold=0.1)
    assert np.array_equal(lines.coefficients != 0, [[True, True, False]] * 4)


def test_coefficients_are_uniform_and_one_function_has_one(networks):
    of_function = networks.coefficients.reshape(30, 4, 3)
    assert (of_function == of_function[:, :1]).all()
    assert len(np.unique(of_function[:, 0], axis=0)) == 30
    many = make_symbolic_regression(900, 1, hidden=(1,), threshold=10.0).coefficients
    for power, values in enumerate(many.T):
        values = np.sort(values[values != 0])
        assert len(values) == 900 - 300 * power
        assert np.abs((values + 1) / 2 - np.linspace(0, 1, len(values))).max() < 0.1
        assert -1 <= values[0] and values[-1] <= 1


def test_networks_of_one_function_are_far_apart(networks):
    weights = networks.weights.reshape(30, 4, -1)
    between = np.linalg.norm(weights[:, :, None] - weights[:, None], axis=-1)
    assert between[:, ~np.eye(4, dtype=bool)].min() > 1


def test_weights_are_in_the_order_of_torch():
    found = make_symbolic_regression(3, 1, hidden=(4, 3), threshold=0.01)
    model = nn.Sequential(nn.Linear(1, 4), nn.Tanh(), nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1))
    x = np.linspace(-1, 1, 32, dtype=np.float32)[:, None]
    for weights, (p0, p1, p2), loss in zip(found.weights, found.coefficients, found.losses):
        vector_to_parameters(torch.from_numpy(weights), model.parameters())
        with torch.no_grad():
            errors = model(torch.from_numpy(x)).numpy() - (p0 + p1 * x + p2 * x**2)
        assert np.square(errors).mean() == pytest.approx(loss, rel=1e-3)


def test_a_network_is_what_torchs_adam_makes_of_its_start(networks):
    i = 9  # the second of a parabola
    start = symbolic._initial_weights([(0, 3, 1, 0)], symbolic._initial_bounds([16]))[0]
    model = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
    vector_to_parameters(torch.from_numpy(start.copy()), model.parameters())
    optimizer = torch.optim.Adam(model.parameters(), 0.03)
    x = torch.linspace(-1, 1, 32)[:, None]
    p0, p1, p2 = networks.coefficients[i].tolist()
    for n_steps in range(1001):  # noqa: B007
        loss = nn.functional.mse_loss(model(x), p0 + p1 * x + p2 * x**2)
        if loss.item() < 1e-3:
            break
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert n_steps > 10
    found = nn.utils.parameters_to_vector(model.parameters()).detach().numpy()
    assert np.abs(found - start).max() > 0.1
    np.testing.assert_allclose(networks.weights[i], found, rtol=0, atol=1e-3)
    # It needs this many steps: with one less it begins anew.
    for max_iter, same in ((n_steps, True), (n_steps - 1, False)):
        bounded = make_symbolic_regression(3, 2, max_iter=max_iter, max_restarts=1000)
        assert np.array_equal(bounded.weights[5], networks.weights[i]) is same


def test_initial_weights_have_seeds_of_their_own():
    # Fits that end before the first step show the initial weights.
    settings = {"hidden": (1,), "threshold": 1e9, "degrees": (2,)}
    found = make_symbolic_regression(30, 20, **settings)
    first = make_symbolic_regression(30, 1, **settings).coefficients
    assert len(np.unique(found.weights)) > 0.999 * found.weights.size
    assert not np.isclose(
        found.weights.ravel()[:, None], first.ravel()[:4], rtol=0, atol=1e-6
    ).any()


def test_initial_weights_are_bounded_by_the_inputs_of_their_layer():
    bounds = symbolic._initial_bounds([4, 9])
    first, second, last = np.split(bounds, [4 + 4, 4 + 4 + 36 + 9])
    assert len(last) == 9 + 1
    for part, expected in ((first, 1), (second, 1 / 2), (last, 1 / 3)):
        np.testing.assert_allclose(part, expected, rtol=1e-6)
    weights = symbolic._initial_weights([(0, i) for i in range(300)], bounds) / bounds
    assert -1 <= weights.min() < -0.99 and 0.99 < weights.max() <= 1
    assert abs(weights.mean()) < 0.02
    assert weights.std() == pytest.approx(3**-0.5, rel=0.02)


# Seeds, and whether a network depends on others


def test_same_seed_same_data_other_seed_other_data(networks):
    before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    assert_same(make_symbolic_regression(30, 4), networks)
    after = torch.get_rng_state(), np.random.get_state()[1]  # noqa: NPY002
    assert torch.equal(before[0], after[0]) and np.array_equal(before[1], after[1])
    other = make_symbolic_regression(30, 4, random_state=1)
    assert not np.isin(other.coefficients[other.coefficients != 0], networks.coefficients).any()
    assert not np.isclose(other.weights, networks.weights).all(1).any()


def test_gradients_are_taken_though_they_are_switched_off():
    with torch.no_grad():
        found = make_symbolic_regression(3, 1)
    assert_same(found, make_symbolic_regression(3, 1))


def test_alone_equals_together(networks):
    alone = make_symbolic_regression(1, 1)
    few = make_symbolic_regression(7, 2)
    assert np.array_equal(alone.weights[0], networks.weights[0])
    assert np.array_equal(few.weights, networks.weights.reshape(30, 4, -1)[:7, :2].reshape(14, -1))


@pytest.mark.parametrize("batch", [1, 4])
def test_those_fitted_at_a_time_do_not_matter(batch, hard, monkeypatch):
    monkeypatch.setattr(symbolic, "BATCH", batch)
    assert_same(make_symbolic_regression(**HARD), hard)


# Restarts


def test_a_network_that_does_not_get_there_begins_anew(hard):
    with pytest.raises(ValueError, match=r"threshold=0.001.*in 1 times 60 steps: increase th"):
        make_symbolic_regression(**HARD | {"max_restarts": 0})
    assert hard.losses.max() < 1e-3
    # Networks that converge at once are the same with more steps; the others have begun anew.
    patient = make_symbolic_regression(**HARD | {"max_iter": 3000})
    same = (hard.weights == patient.weights).all(1)
    assert 0 < same.sum() < len(same)


def test_what_cannot_be_reached_is_an_error_in_the_end():
    with pytest.raises(ValueError, match=r"in 3 times 20 steps.*hidden=\[1\]"):
        make_symbolic_regression(3, 2, hidden=(1,), threshold=1e-9, max_iter=20, max_restarts=2)


# The source


def test_it_is_a_source_of_functions_and_gives_coefficients(networks):
    first, second = (networks.draw(np.random.default_rng(seed)) for seed in range(2))
    assert first.X is second.X is networks.weights
    assert first.y is networks.functions
    assert first.n_classes == 30
    assert networks.regression.X is networks.weights
    assert networks.regression.y is networks.coefficients
    assert as_source(networks) is networks


def test_sequences_of_five_functions_are_drawn_from_it(networks):
    sampler = ClassSequences(
        OneHotLabels(n_classes=5), Vectors(49), n_classes=(5, 5), n_instances=(3,)
    )
    rng = np.random.default_rng(0)
    sequence = sampler.draw(networks.draw(rng), rng)
    assert sequence.x.shape == (15, 49)
    assert all((row == networks.weights).all(1).any() for row in sequence.x)


# Files


@pytest.fixture
def cached(tmp_path):
    """The generated networks, and the one file that holds them."""
    found = make_symbolic_regression(4, 2, data_home=tmp_path)
    (folder,) = tmp_path.iterdir()
    assert folder.name == "symbolic_regression"
    (file,) = folder.iterdir()
    return found, file


def test_a_file_is_read_in_place_of_fitting(cached, tmp_path, monkeypatch):
    found, file = cached
    assert_same(found, make_symbolic_regression(4, 2))
    monkeypatch.setattr(symbolic, "_generate", None)
    again = make_symbolic_regression(4, 2, degrees=[0, 1, 2], hidden=[16], data_home=str(tmp_path))
    assert isinstance(again, SymbolicNetworks)
    assert_same(again, found)
    assert list(file.parent.iterdir()) == [file]


def test_each_setting_has_a_file_of_its_own(tmp_path, monkeypatch):
    others = {
        "n_functions": 2,
        "n_networks": 2,
        "degrees": (1,),
        "hidden": (2,),
        "threshold": 0.1,
        "n_points": 5,
        "learning_rate": 0.1,
        "max_iter": 10,
        "max_restarts": 1,
        "random_state": 1,
    }

    def nothing(n_functions, n_networks, hidden, **_):
        n, n_weights = n_functions * n_networks, len(symbolic._initial_bounds(hidden))
        return SymbolicNetworks(
            np.zeros((n, n_weights)), np.zeros(n), np.zeros((n, 3)), np.zeros(n)
        )

    monkeypatch.setattr(symbolic, "_generate", nothing)
    for setting in [{}, *({name: value} for name, value in others.items())]:
        make_symbolic_regression(data_home=tmp_path, **setting)
    assert len(list(tmp_path.glob("symbolic_regression/*.npz"))) == len(others) + 1


@pytest.mark.parametrize("name", ["weights", "functions", "coefficients", "losses"])
def test_a_file_of_other_shapes_is_refused(name, tmp_path):
    wanted = {"hidden": (2,), "threshold": 0.1, "data_home": tmp_path}
    made = make_symbolic_regression(2, 1, **wanted)
    (file,) = tmp_path.glob("*/*.npz")
    np.savez(file, **vars(made) | {name: getattr(made, name)[:1]})
    with pytest.raises(ValueError, match="cannot be read as fitted networks .it has arrays of"):
        make_symbolic_regression(2, 1, **wanted)


@settings(max_examples=100)
@given(share=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7), cut=st.booleans())
def test_a_damaged_file_is_never_taken_for_data(share, bit, cut, tmp_path_factory):
    folder = tmp_path_factory.getbasetemp() / "damaged"
    expected = make_symbolic_regression(2, 1, hidden=(2,), threshold=0.1, data_home=folder)
    (file,) = folder.glob("*/*.npz")
    whole = file.read_bytes()
    content, place = bytearray(whole), int(share * len(whole))
    content[place] ^= 1 << bit
    file.write_bytes(content[:place] if cut else content)
    try:
        found = make_symbolic_regression(2, 1, hidden=(2,), threshold=0.1, data_home=folder)
    except ValueError as error:
        assert f"{file} cannot be read" in str(error) and "remove it" in str(error)
    else:  # the damage is in an unimportant part, such as the file's date
        assert not cut
        assert_same(found, expected)
    finally:
        file.write_bytes(whole)


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04"])
def test_a_file_of_something_else_is_refused_until_removed(cached, content, tmp_path):
    found, file = cached
    file.write_bytes(content)
    with pytest.raises(ValueError, match=f"{file.name} cannot be read.*remove it and call again"):
        make_symbolic_regression(4, 2, data_home=tmp_path)
    file.unlink()
    assert_same(make_symbolic_regression(4, 2, data_home=tmp_path), found)


def test_pickles_are_not_loaded(cached, tmp_path):
    found, file = cached
    np.savez(file, **vars(found) | {"losses": np.array([Path], dtype=object)})
    with pytest.raises(ValueError, match="allow_pickle=False"):
        make_symbolic_regression(4, 2, data_home=tmp_path)


def test_a_folder_that_cannot_be_written_is_told_before_the_work(tmp_path, monkeypatch):
    monkeypatch.setattr(symbolic, "_generate", None)
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="data_home"):
        make_symbolic_regression(2, 1, data_home=tmp_path / "file")


def test_writing_that_breaks_off_leaves_nothing(tmp_path, monkeypatch):
    def break_off(file, **arrays):
        file.write(b"half")
        raise OSError("no space left")

    monkeypatch.setattr(np, "savez", break_off)
    with pytest.raises(OSError, match=r"npz cannot be written \(no space left\): make room"):
        make_symbolic_regression(2, 1, data_home=tmp_path)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
    monkeypatch.undo()
    make_symbolic_regression(2, 1, data_home=tmp_path)


def killed_while_it_writes(folder):
    def die(file, **arrays):
        file.write(b"half")
        file.flush()
        os.kill(os.getpid(), signal.SIGKILL)

    symbolic.np.savez = die
    make_symbolic_regression(2, 1, data_home=folder)


def test_what_a_killed_call_left_is_replaced_by_the_next(tmp_path):
    assert ended(started(killed_while_it_writes, tmp_path)) == -signal.SIGKILL
    (left,) = (path for path in tmp_path.rglob("*") if path.is_file())
    assert left.read_bytes() == b"half"
    networks = make_symbolic_regression(2, 1, data_home=tmp_path)
    (file,) = (path for path in tmp_path.rglob("*") if path.is_file())
    assert file.suffix == ".npz"
    again = make_symbolic_regression(2, 1, data_home=tmp_path)
    np.testing.assert_array_equal(again.weights, networks.weights)


# What is refused


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_functions": 0}, "n_functions must be an integer of 1 or more, got 0"),
        ({"n_functions": 2.5}, "n_functions"),
        ({"n_networks": 0}, "n_networks"),
        ({"degrees": ()}, "degrees must be a sequence of one or more"),
        ({"degrees": (1, 3)}, "degrees must be chosen from 0, 1 and 2"),
        ({"degrees": (-1,)}, "degrees"),
        ({"degrees": 2}, "degrees must be a sequence.*got 2"),
        ({"hidden": ()}, "hidden must be a sequence of one or more integers"),
        ({"hidden": (16, 0)}, "Each of hidden must be an integer of 1 or more, got 0"),
        ({"hidden": 16}, "hidden must be a sequence.*got 16"),
        ({"threshold": 0}, "threshold must be a positive number, got 0"),
        ({"threshold": float("nan")}, "threshold"),
        ({"threshold": "0.1"}, "threshold"),
        ({"n_points": 2}, "n_points must be an integer of 3 or more"),
        ({"learning_rate": float("inf")}, "learning_rate must be a positive number"),
        ({"max_iter": 0}, "max_iter"),
        ({"max_restarts": -1}, "max_restarts"),
        ({"random_state": None}, "random_state must be an integer of 0 or more, got None"),
        ({"random_state": -1}, "random_state"),
    ],
)
def test_bad_settings_are_named(settings, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        make_symbolic_regression(**settings, data_home=tmp_path)
    assert not list(tmp_path.iterdir())

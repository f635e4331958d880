"""The memory-augmented network equals slow transcriptions of its equations (paper 002)."""

import math
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import softplus

from sklearn_meta.backbones import MANN
from sklearn_meta.backbones.memory_access import TuringMachine, lrua_step

ACCESSES = ["lrua", "ntm", None]
CONTROLLERS = ["lstm", "feedforward"]
SMALL = {"width": 12, "n_slots": 9, "slot_size": 5, "n_reads": 3}


def make(controller="lstm", access="lrua", n_inputs=4, n_outputs=3, seed=0, **config):
    torch.manual_seed(seed)
    network = MANN(n_inputs, n_outputs, controller=controller, access=access, **SMALL | config)
    return network.double()


def cosine(a, b):
    """Eq. (2)."""
    lengths = math.sqrt(sum(x * x for x in a)) * math.sqrt(sum(x * x for x in b))
    return sum(x * y for x, y in zip(a, b)) / lengths if lengths else 0.0


def softmax(values):
    total = sum(math.exp(v) for v in values)
    return [math.exp(v) / total for v in values]


def slow_lrua(slots, read_weights, usage, keys, gates, strengths, decay, shared):
    """Eq. (2)-(8) for one sequence, number by number."""
    n_slots, size, n_heads = len(slots), len(slots[0]), len(keys)
    least = sorted(range(n_slots), key=lambda i: usage[i])[: 1 if shared else n_heads]  # (6)
    least *= n_heads if shared else 1
    write = [
        [
            gates[h] * read_weights[h][i] + (1 - gates[h]) * (1.0 if i == least[h] else 0.0)  # (7)
            for i in range(n_slots)
        ]
        for h in range(n_heads)
    ]
    new = [[0.0 if i in least else x for x in slots[i]] for i in range(n_slots)]
    for h in range(n_heads):
        for i in range(n_slots):
            for j in range(size):
                new[i][j] += write[h][i] * keys[h][j]  # (8)
    read = [
        softmax([strengths[h] * cosine(keys[h], new[i]) for i in range(n_slots)])  # (3)
        for h in range(n_heads)
    ]
    reads = [
        [sum(read[h][i] * new[i][j] for i in range(n_slots)) for j in range(size)]  # (4)
        for h in range(n_heads)
    ]
    used = [
        decay * usage[i] + sum(read[h][i] + write[h][i] for h in range(n_heads))  # (5)
        for i in range(n_slots)
    ]
    return new, read, write, used, reads


@given(
    n=st.integers(1, 3),
    n_slots=st.integers(3, 12),
    size=st.integers(1, 6),
    n_heads=st.integers(1, 3),
    tied=st.booleans(),
    shared=st.booleans(),
    seed=st.integers(0, 2**16),
)
def test_lrua_is_its_equations(n, n_slots, size, n_heads, tied, shared, seed):
    rng = np.random.default_rng(seed)
    slots = rng.normal(size=(n, n_slots, size)) * (rng.random((n, n_slots, 1)) < 0.7)
    weights = rng.dirichlet(np.ones(n_slots), (n, n_heads))
    usage = np.zeros((n, n_slots)) if tied else rng.random((n, n_slots))
    keys = np.tanh(rng.normal(size=(n, n_heads, size)))
    gates, strengths = rng.random((n, n_heads, 1)), 1 + 9 * rng.random((n, n_heads, 1))
    arrays = (slots, weights, usage, keys, gates, strengths)
    found = lrua_step(*map(torch.from_numpy, arrays), 0.99, shared)
    for b in range(n):
        one = [array[b].tolist() for array in arrays]
        one[4:] = [[x for (x,) in part] for part in one[4:]]
        for tensor, expected in zip(found, slow_lrua(*one, 0.99, shared), strict=True):
            np.testing.assert_allclose(tensor[b].numpy(), expected, rtol=1e-6, atol=1e-6)


def slow_network(network, inputs):
    """Eq. (9)-(16) and the memory for one sequence, step by step and number by number."""
    p = {name: tensor.tolist() for name, tensor in network.state_dict().items()}
    width, n_slots, size, n_heads = (SMALL[k] for k in ("width", "n_slots", "slot_size", "n_reads"))

    def linear(weight, x, bias=None):
        rows = [sum(w * v for w, v in zip(row, x)) for row in weight]
        return [r + b for r, b in zip(rows, bias)] if bias else rows

    def sigmoid(v):
        return 1 / (1 + math.exp(-v))

    h, c = [0.0] * width, [0.0] * width
    slots = [[0.0] * size for _ in range(n_slots)]
    read = [[0.0] * n_slots for _ in range(n_heads)]
    usage, reads = [0.0] * n_slots, [[0.0] * size for _ in range(n_heads)]
    outputs = []
    for x in inputs.tolist():
        before = linear(p["from_before.weight"], [*h, *(v for r in reads for v in r)])
        z = [a + b for a, b in zip(linear(p["from_input.weight"], x, p["from_input.bias"]), before)]
        forget, write, show, new = (z[i * width : (i + 1) * width] for i in range(4))
        c = [
            sigmoid(f) * ci + sigmoid(i) * math.tanh(u)
            for f, i, u, ci in zip(forget, write, new, c)
        ]
        h = [sigmoid(o) * math.tanh(ci) for o, ci in zip(show, c)]
        flat = linear(p["access.keys.weight"], c, p["access.keys.bias"])
        keys = [[math.tanh(v) for v in flat[i * size : (i + 1) * size]] for i in range(n_heads)]
        gates = linear(p["access.gates.weight"], h, p["access.gates.bias"])
        alpha, strength = gates[0::2], [1 + 5 * math.log1p(math.exp(v)) for v in gates[1::2]]
        slots, read, _, usage, reads = slow_lrua(
            slots, read, usage, keys, [sigmoid(a) for a in alpha], strength, 0.99, True
        )
        o = [*h, *(v for r in reads for v in r)]
        outputs.append(linear(p["output.weight"], o, p["output.bias"]))
    return outputs


def test_the_network_is_its_equations():
    network = make()
    inputs = torch.randn(2, 7, 4, dtype=torch.float64)
    with torch.no_grad():
        found, _ = network(inputs)
    for b in range(2):
        expected = slow_network(network, inputs[b])
        np.testing.assert_allclose(found[b].numpy(), expected, rtol=1e-6, atol=1e-8)


def test_the_step_can_be_scripted():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        scripted = torch.jit.script(lrua_step)
    torch.manual_seed(0)
    arguments = (
        *(torch.randn(2, 8, 5), torch.rand(2, 3, 8), torch.rand(2, 8)),
        *(torch.randn(2, 3, 5), torch.rand(2, 3, 1), torch.ones(2, 3, 1), 0.99, True),
    )
    for a, b in zip(scripted(*arguments), lrua_step(*arguments), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("access", ["lrua", "ntm"])
def test_access_can_be_compiled(access):
    torch.compiler.reset()
    network, compiled = make(access=access), make(access=access)
    compiled.access.compile(backend="aot_eager", fullgraph=True)  # needs no C++ compiler
    outputs, gradients = [], []
    for each in (network, compiled):
        output, _ = each(torch.linspace(-1, 1, 40, dtype=torch.float64).reshape(2, 5, 4))
        output.square().sum().backward()
        outputs.append(output)
        gradients.append(each.from_input.weight.grad)
    assert compiled.state_dict().keys() == network.state_dict().keys()
    torch.testing.assert_close(outputs[1], outputs[0])
    torch.testing.assert_close(gradients[1], gradients[0])


@pytest.mark.parametrize("access", ACCESSES)
@pytest.mark.parametrize("controller", CONTROLLERS)
def test_what_is_kept_and_said_is_never_bfloat16(controller, access):
    network, inputs = make(controller, access).float(), torch.randn(2, 7, 4)
    with torch.no_grad():
        exact, _ = network(inputs)
        with torch.autocast("cpu", torch.bfloat16):
            rounded, state = network(inputs)
    kept = [state.hidden, state.cell, *(state.memory or ())]
    assert {tensor.dtype for tensor in [rounded, *kept]} == {torch.float32}
    assert 0 < (rounded - exact).abs().max() < 0.05  # the controller's products are bfloat16


@pytest.mark.parametrize("access", ACCESSES)
@pytest.mark.parametrize("controller", CONTROLLERS)
@given(data=st.data())
@settings(max_examples=10)
def test_in_pieces_batched_and_padded(controller, access, data):
    network = make(controller, access, seed=data.draw(st.integers(0, 99)))
    n, length = data.draw(st.integers(1, 4)), data.draw(st.integers(2, 9))
    cut = data.draw(st.integers(1, length - 1))
    inputs = torch.randn(n, length, 4, dtype=torch.float64)
    with torch.no_grad():
        whole, end = network(inputs)
        first, state = network(inputs[:, :cut])
        second, last = network(inputs[:, cut:], state)
        alone, _ = network(inputs[:1])
    torch.testing.assert_close(torch.cat([first, second], 1), whole)
    torch.testing.assert_close(whole[:, :cut], first)  # later rows are not read
    torch.testing.assert_close(alone, whole[:1])
    torch.testing.assert_close(last.hidden, end.hidden)


@pytest.mark.parametrize("access", ACCESSES)
@pytest.mark.parametrize("controller", CONTROLLERS)
def test_every_parameter_learns(controller, access):
    network = make(controller, access)
    network(torch.randn(2, 6, 4, dtype=torch.float64))[0].square().sum().backward()
    still = [n for n, p in network.named_parameters() if p.grad is None or not p.grad.any()]
    assert still == []


def test_what_is_remembered_depends_on_memory():
    inputs = torch.randn(1, 6, 4, dtype=torch.float64)
    other = inputs.clone()
    other[:, 0] += 1
    for controller, access in [("feedforward", None), ("feedforward", "lrua"), ("lstm", None)]:
        network = make(controller, access)
        with torch.no_grad():
            change = (network(inputs)[0] - network(other)[0]).abs().amax(-1)[0]
        assert change[0] > 0
        assert (change[1:] > 0).all() == ((controller, access) != ("feedforward", None))


def test_the_gate_chooses_between_least_used_and_last_read():
    slots = torch.randn(1, 6, 4)
    read = torch.eye(6)[None, :2]  # the heads read slots 0 and 1
    usage = torch.tensor([[5.0, 4, 1, 3, 0, 2]])  # least used: 4, then 2
    keys, strength = torch.randn(1, 2, 4), torch.ones(1, 2, 1)
    new, _, write, *_ = lrua_step(
        *(slots, read, usage, keys, torch.zeros(1, 2, 1), strength, 0.99, False)
    )
    assert write[0].argmax(1).tolist() == [4, 2]
    torch.testing.assert_close(new[0, [4, 2]], keys[0])  # emptied before being written
    torch.testing.assert_close(new[0, [0, 1, 3, 5]], slots[0, [0, 1, 3, 5]])
    new, _, write, *_ = lrua_step(
        *(slots, read, usage, keys, torch.ones(1, 2, 1), strength, 0.99, False)
    )
    torch.testing.assert_close(new[0, [0, 1]], slots[0, [0, 1]] + keys[0])
    assert not new[0, [2, 4]].any()


def test_of_no_strength_every_slot_is_read_alike():
    net = MANN(4, 3, **SMALL, strength=0.0)
    with torch.no_grad():
        read = net(torch.randn(2, 5, 4))[1].memory.read_weights
    torch.testing.assert_close(read, torch.full_like(read, 1 / read.shape[2]))


def test_usage_has_no_gradient():
    usage = torch.rand(1, 6)
    tensors = [torch.randn(1, 6, 4), torch.rand(1, 2, 6), torch.randn(1, 2, 4), torch.rand(1, 2, 1)]
    slots, read, keys, gate = (t.requires_grad_() for t in tensors)
    *_, usage, reads = lrua_step(slots, read, usage, keys, gate, torch.ones(1, 2, 1), 0.9, True)
    assert reads.requires_grad and not usage.requires_grad


def test_turing_machine_shifts_and_sharpens():
    machine = TuringMachine(3, 5, 2, 1)
    slots, before = torch.randn(1, 5, 2), torch.eye(5)[None, :1]
    with torch.no_grad():
        # key, strength, interpolation (all weight on the step before), shifts, sharpness
        ahead = torch.tensor([[[0.0, 0, 0, -50, 50, 0, 0, 0]]])
        stay = torch.tensor([[[0.0, 0, 0, -50, 0, 50, 0, 0]]])
        content = torch.cat([slots[:, 3:4], torch.tensor([[[50.0, 50, 0, 50, 0, 0]]])], 2)
        assert machine._address(ahead, before, slots)[0, 0].argmax() == 1
        assert machine._address(stay, before, slots)[0, 0].argmax() == 0
        found = machine._address(content, before, slots)
    assert found[0, 0].argmax() == torch.cosine_similarity(slots[0, 3].tanh(), slots[0]).argmax()
    torch.testing.assert_close(found.sum(2), torch.ones(1, 1))


@torch.no_grad()
def test_turing_machine_is_its_equations():
    """Eq. (2)-(9) of Graves et al., head by head and slot by slot."""
    torch.manual_seed(0)
    machine, N, W = TuringMachine(3, 5, 2, 2).double(), 5, 2
    machine.heads.weight.mul_(3)
    hidden = torch.randn(2, 1, 3, dtype=torch.float64)
    before = machine(hidden[0], None, machine.empty(1, hidden))
    after = machine(hidden[1], None, before)

    def address(asked, weights, slots):
        key, strength, mix, shift, sharpness = asked.split([W, 1, 1, 3, 1])
        alike = torch.tensor([cosine(key.tanh().tolist(), slot.tolist()) for slot in slots])
        content = ((1 + 5 * softplus(strength)) * alike.double()).softmax(0)
        mix, shift = mix.sigmoid(), shift.softmax(0)
        mixed = mix * content + (1 - mix) * weights
        shifted = torch.stack(
            [sum(shift[k] * mixed[(i + k - 1) % N] for k in range(3)) for i in range(N)]
        )
        sharp = (shifted + 1e-6) ** (1 + softplus(sharpness))
        return sharp / sharp.sum()

    *readers, writer = machine.heads(hidden[1])[0].split(W + 6)
    write = address(writer, before.write_weights[0, 0], before.slots[0])
    torch.testing.assert_close(after.write_weights[0, 0], write, rtol=1e-6, atol=1e-8)
    erase, add = machine.erase_and_add(hidden[1])[0].split(W)
    erase, add = erase.sigmoid(), add.tanh()
    slots = torch.stack(
        [before.slots[0, i] * (1 - write[i] * erase) + write[i] * add for i in range(N)]
    )
    torch.testing.assert_close(after.slots[0], slots, rtol=1e-6, atol=1e-8)
    for r, asked in enumerate(readers):  # heads read after the writing
        read = address(asked, before.read_weights[0, r], slots)
        torch.testing.assert_close(after.read_weights[0, r], read, rtol=1e-6, atol=1e-8)
        torch.testing.assert_close(after.reads[0, r], read @ slots, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"controller": "gru"}, "controller must be"),
        ({"access": "all"}, "access must be"),
        ({"n_reads": 10}, "n_slots must be at least n_reads=10, got"),
    ],
)
def test_bad_configurations(config, message):
    with pytest.raises(ValueError, match=message):
        MANN(4, 3, **SMALL | config)

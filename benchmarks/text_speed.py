"""Words per second of a Meta-LSTM, against its equations in a loop and torch's own LSTM.

    OMP_NUM_THREADS=1 python benchmarks/text_speed.py
    python benchmarks/text_speed.py --quick

A step is forward and backward over a batch of random texts of different lengths. Ours reads them
packed. The loop computes Eq. (10)-(20) of paper 004 word by word and gate by gate on padded texts.
torch.nn.LSTM of the same width is a different, simpler network in C++, which is fast on padded
texts and slow on packed ones. All take turns in one run; ours and the loop are first checked to
agree.
"""

import argparse

import torch
from arguments import count
from results_folder import place_of
from speed import conditions, interleaved, publish
from torch import nn
from torch.nn.utils.rnn import pack_sequence, pad_packed_sequence

from sklearn_meta.backbones.meta_lstm import BasicLSTM, MetaLSTM, compose
from sklearn_meta.backbones.text_sharing import last

D, H, M, Z = 100, 100, 40, 40

PADDED = "torch.nn.LSTM, padded"


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few short texts")
    parser.add_argument(
        "--n-repeats", type=count, default=10, help="minimum of timed steps of each"
    )
    parser.add_argument("--output", help="file [benchmarks/results/text_speed.md, or _quick]")
    args = parser.parse_args(arguments)
    args.output = place_of(args.output, "text_speed.md", args.quick)
    torch.set_num_threads(1)
    lines = [
        f"{conditions()} Median of steps in turn, forward and backward; d = h = {D}, m = z = {M}.",
        "",
        "| texts | words | implementation | ms a step | words / s | ratio to the padded LSTM |",
        "|---|---:|---|---:|---:|---:|",
    ]
    for n_texts, longest in ((4, 10),) if args.quick else ((16, 100), (16, 270), (64, 100)):
        x, networks = texts(n_texts, longest), build()
        check(networks, x)
        times = interleaved(steps(networks, x), 1 if args.quick else args.n_repeats)
        for name, ms in times.items():
            cells = f"{ms:.1f} | {1000 * len(x.data) / ms:,.0f} | {times[PADDED] / ms:.2f}"
            lines.append(f"| {n_texts} | {len(x.data)} | {name} | {cells} |")
    publish(lines, args.output)


def texts(n, longest):
    """Draw packed texts, the shortest half as long as the longest."""
    torch.manual_seed(0)
    lengths = torch.linspace(longest, longest / 2, n).int().tolist()
    return pack_sequence([torch.randn(length, D) for length in lengths])


def build():
    torch.manual_seed(0)
    return MetaLSTM(D, H, M, Z), BasicLSTM(D, H, Z), nn.LSTM(D, H)


def check(networks, x):
    meta, basic, _ = networks
    with torch.no_grad():
        torch.testing.assert_close(
            last(compose(meta, basic, x), x.batch_sizes), loop(meta, basic, x), atol=1e-4, rtol=0
        )


def steps(networks, x):
    meta, basic, lstm = networks
    padded = pad_packed_sequence(x)[0]
    forwards = {
        "sklearn_meta": lambda: last(compose(meta, basic, x), x.batch_sizes),
        "loop over words and gates": lambda: loop(meta, basic, x),
        "torch.nn.LSTM, packed": lambda: lstm(x)[1][0],
        PADDED: lambda: lstm(padded)[0],
    }

    def as_step(forward):
        def step():
            forward().square().sum().backward()

        return step

    return {name: as_step(forward) for name, forward in forwards.items()}


def loop(meta, basic, x):
    """Compute the last h of each text by Eq. (10)-(20), word by word on padded texts."""
    padded, lengths = pad_packed_sequence(x)
    n = padded.shape[1]
    hidden, cell = padded.new_zeros(n, H), padded.new_zeros(n, H)
    meta_hidden, meta_cell = padded.new_zeros(n, M), padded.new_zeros(n, M)
    W = torch.cat([meta.from_input.weight, meta.from_state.weight], 1)
    Q = torch.cat([basic.from_input.weight, basic.from_state.weight], 1).split(Z)
    for t, word in enumerate(padded):
        sums = torch.cat([word, meta_hidden, hidden], 1) @ W.T + meta.from_input.bias  # (15)
        new, show, write, keep = sums.chunk(4, 1)
        meta_cell = new.tanh() * write.sigmoid() + meta_cell * keep.sigmoid()
        meta_hidden = show.sigmoid() * meta_cell.tanh()
        z = meta.to_z(meta_hidden)  # (18)
        both = torch.cat([word, hidden], 1)
        gates = []
        for gate in range(4):
            P, B = basic.weight[gate, :Z], basic.weight[gate, Z:]
            gates.append((z * (both @ Q[gate].T)) @ P + z @ B)  # (13), (14)
        new_cell = gates[0].tanh() * gates[2].sigmoid() + cell * gates[3].sigmoid()
        goes_on = (t < lengths)[:, None]
        hidden = torch.where(goes_on, gates[1].sigmoid() * new_cell.tanh(), hidden)
        cell = torch.where(goes_on, new_cell, cell)
    return hidden


if __name__ == "__main__":
    main()

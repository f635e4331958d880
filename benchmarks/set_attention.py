"""Time and memory of SAB and ISAB (figure 5 of paper 001), against other implementations.

    python benchmarks/set_attention.py
    python benchmarks/set_attention.py --quick

One block reads one random set of n elements, forward and backward. Its attention is ours, which is
torch's scaled_dot_product_attention; torch.nn.MultiheadAttention, by default and without the
attention weights that it returns by default; or Eq. (2) in plain matrix products. All have the same
weights, give the same answer, and take turns. Ratios above 1: ours is better.

Memory is the rise of a separate process's peak resident memory in one step (Linux). Differences of
a few MiB are due to the allocator.
"""

import argparse
import csv
import os
import subprocess
import sys
from pathlib import Path

import torch
from arguments import count
from matplotlib.figure import Figure
from results_folder import place_of
from speed import high_water_mark, interleaved
from torch import nn

from sklearn_meta.backbones.set_transformer import ISAB, MAB, SAB

#: The blocks of figure 5 and wider ones.
BLOCKS = {
    "SAB(64, 8)": lambda: SAB(64, 8),
    "ISAB_4(64, 8)": lambda: ISAB(64, 8, 4),
    "SAB(128, 4)": lambda: SAB(128, 4),
    "ISAB_16(128, 4)": lambda: ISAB(128, 4, 16),
}
SIZES = [200, 1000, 5000]
FIELDS = ["block", "n", "attention", "ms", "mib", "time_ratio", "memory_ratio"]


class PlainAttention(nn.Module):
    """``Multihead(X, Y, Y)`` with the weights of a MAB, Eq. (2)-(4) in matrix products."""

    def __init__(self, block):
        super().__init__()
        self.n_heads = block.n_heads
        self.query, self.key_value, self.merge = block.query, block.key_value, block.merge

    def forward(self, x, y):
        W = x.shape[2]
        q, k, v = (
            z.unflatten(2, (self.n_heads, -1)).transpose(1, 2)
            for z in (self.query(x), *self.key_value(y).chunk(2, dim=2))
        )
        weights = (q @ k.transpose(2, 3) / W**0.5).softmax(3)
        return self.merge((weights @ v).transpose(1, 2).flatten(2))


class TorchAttention(nn.Module):
    """The same by torch.nn.MultiheadAttention."""

    def __init__(self, block, need_weights):
        super().__init__()
        W, R = block.query.in_features, block.n_heads
        self.need_weights = need_weights
        self.attention = nn.MultiheadAttention(W, R, bias=False, batch_first=True)
        with torch.no_grad():
            # It divides logits by the square root of a head's width; the paper, of the whole width.
            query = block.query.weight / R**0.5
            self.attention.in_proj_weight.copy_(torch.cat([query, block.key_value.weight]))
            self.attention.out_proj.weight.copy_(block.merge.weight)

    def forward(self, x, y):
        return self.attention(x, y, y, need_weights=self.need_weights)[0]


OURS = "ours"
ATTENTIONS = {
    OURS: None,
    "MultiheadAttention": lambda block: TorchAttention(block, need_weights=True),
    "MultiheadAttention, no weights": lambda block: TorchAttention(block, need_weights=False),
    "matmul and softmax": PlainAttention,
}


def build(block, attention):
    """Build a block of `BLOCKS` with one of `ATTENTIONS`; the weights are always the same."""
    torch.manual_seed(0)
    module = BLOCKS[block]()
    for mab in [m for m in module.modules() if isinstance(m, MAB)]:
        if ATTENTIONS[attention]:
            mab.other = ATTENTIONS[attention](mab)
            mab.attend = lambda x, y, mask=None, other=mab.other: other(x, y)
    return module


def elements(block, n):
    width = int(block.split("(")[1].split(",")[0])
    generator = torch.Generator().manual_seed(1)
    return torch.randn(1, n, width, generator=generator).requires_grad_(True)


def step(module, x):
    """Run one forward and backward pass."""
    module(x).square().mean().backward()
    module.zero_grad(set_to_none=True)
    x.grad = None


def rows_of(blocks, sizes, n_repeats, threads):
    """Yield a row for each block, size and attention."""
    for block in blocks:
        modules = {name: build(block, name) for name in ATTENTIONS}
        for n in sizes:
            x = elements(block, n)
            with torch.no_grad():
                for module in modules.values():
                    torch.testing.assert_close(module(x), modules[OURS](x), rtol=1e-4, atol=1e-4)
            calls = {
                name: lambda module=module, x=x: step(module, x) for name, module in modules.items()
            }
            times = interleaved(calls, n_repeats)
            peaks = {name: peak_memory(block, n, name, threads) for name in modules}
            for name in modules:
                yield {
                    "block": block,
                    "n": n,
                    "attention": name,
                    "ms": times[name],
                    "mib": peaks[name],
                    "time_ratio": times[name] / times[OURS],
                    "memory_ratio": peaks[name] / max(peaks[OURS], 1e-9),
                }


def peak_memory(block, n, attention, threads):
    """Peak memory of one step in MiB, measured in a separate process."""
    command = [sys.executable, __file__, "--threads", str(threads)]
    command += ["--peak-memory", block, str(n), attention]
    return float(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


def measure_peak(block, n, attention):
    """Peak memory of this process in one step, less the memory before it."""
    module = build(block, attention)
    step(module, elements(block, 20))  # so that libraries loaded late do not count
    x = elements(block, int(n))
    Path("/proc/self/clear_refs").write_text("5", "utf-8")  # reset the high-water mark
    before = high_water_mark()
    step(module, x)
    return high_water_mark() - before


# The report


def as_text(row):
    return (
        f"{row['block']}, n={row['n']}, {row['attention']}: {row['ms']:.2f} ms, "
        f"{row['mib']:.1f} MiB; ratios {row['time_ratio']:.2f}, {row['memory_ratio']:.2f}"
    )


def write(rows, output, args):
    """Write all rows as CSV, a Markdown table per block, and a plot."""
    output.parent.mkdir(parents=True, exist_ok=True)
    with open(output.with_suffix(".csv"), "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, FIELDS)
        writer.writeheader()
        writer.writerows(rows)
    quick = ", --quick" if args.quick else ""
    lines = [
        f"torch {torch.__version__}, {args.threads} thread(s) of {os.cpu_count()} cores{quick}. "
        "One set of n elements, forward and backward, median. Ratios are to ours in the same run; "
        "above 1: ours is better. Memory is the rise of the peak resident memory of a process of "
        "its own in one step.",
        "",
    ]
    for block in dict.fromkeys(row["block"] for row in rows):
        lines += [f"### {block}", "", "| " + " | ".join(FIELDS[1:]) + " |", "|---:|---|---:|---:"]
        lines[-1] += "|---:|---:|"
        for row in (row for row in rows if row["block"] == block):
            cells = (f"{v:.2f}" if isinstance(v := row[f], float) else str(v) for f in FIELDS[1:])
            lines.append("| " + " | ".join(cells) + " |")
        lines.append("")
    lines += figure_5(rows)
    output.with_suffix(".md").write_text("\n".join(lines), "utf-8")
    plot(rows, output.with_suffix(".png"))
    print(f"written to {output.with_suffix('.md')}, .csv and .png")


def figure_5(rows):
    """Lines of a table: time and memory of a SAB divided by those of an ISAB of the same width."""
    ours = {(row["block"], row["n"]): row for row in rows if row["attention"] == OURS}
    lines = ["### Figure 5: SAB over ISAB, ours", "", "| blocks | n | time | memory |"]
    lines.append("|---|---:|---:|---:|")
    blocks = list(dict.fromkeys(block for block, _ in ours))
    for sab, isab in zip(blocks[::2], blocks[1::2]):
        for n in dict.fromkeys(n for _, n in ours):
            a, b = ours[sab, n], ours[isab, n]
            memory = a["mib"] / max(b["mib"], 1e-9)
            lines.append(f"| {sab} / {isab} | {n} | {a['ms'] / b['ms']:.2f} | {memory:.2f} |")
    return [*lines, ""]


def plot(rows, path):
    """Plot time and memory by the size of the set, one column for each width."""
    blocks = list(dict.fromkeys(row["block"] for row in rows))
    figure = Figure(figsize=(11, 7), layout="constrained")
    axes = figure.subplots(2, len(blocks) // 2, sharex=True, squeeze=False)
    for column, pair in enumerate(zip(blocks[::2], blocks[1::2])):
        for ax, measure, label in zip(axes[:, column], ("ms", "mib"), ("milliseconds", "MiB")):
            for block, style in zip(pair, ("o-", "s--")):
                for i, attention in enumerate(ATTENTIONS):
                    line = [r for r in rows if (r["block"], r["attention"]) == (block, attention)]
                    values = [max(r[measure], 0.1) for r in line]
                    name = f"{block.split('(')[0]}, {attention}"
                    ax.plot([r["n"] for r in line], values, style, color=f"C{i}", label=name)
            ax.set(xscale="log", yscale="log", ylabel=label)
            ax.grid(alpha=0.3)
        axes[0, column].set_title(" and ".join(pair))
        axes[1, column].set_xlabel("elements")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside right", fontsize="small")
    figure.savefig(path, dpi=120)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="smaller sets, fewer repetitions")
    parser.add_argument("--threads", type=count, default=1, help="threads of torch")
    parser.add_argument(
        "--output", help="without an ending [benchmarks/results/paper_001/figure_5, or _quick]"
    )
    parser.add_argument("--peak-memory", nargs=3, help=argparse.SUPPRESS)  # see peak_memory
    args = parser.parse_args(arguments)
    args.output = place_of(args.output, "paper_001/figure_5", args.quick)
    torch.set_num_threads(args.threads)
    if args.peak_memory:
        print(measure_peak(*args.peak_memory))
        return
    blocks = list(BLOCKS)[:2] if args.quick else list(BLOCKS)
    rows = []
    for row in rows_of(
        blocks, [20, 50] if args.quick else SIZES, 1 if args.quick else 9, args.threads
    ):
        rows.append(row)
        print(as_text(row), flush=True)
    write(rows, Path(args.output), args)


if __name__ == "__main__":
    main()

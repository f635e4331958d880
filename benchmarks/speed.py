"""Speed: variable-feature attention, one few-shot task, and many tasks at once.

    python benchmarks/speed.py
    python benchmarks/speed.py --quick

There are four measurements on synthetic tasks, each a ratio of two things timed in turn in one run;
above 1, ours is better:

- the backbone against the paper's equations in einsum, in time and peak memory;
- the attention's folded matrix products against torch's scaled_dot_product_attention;
- ``fit`` and ``predict`` against scikit-learn's Gaussian process;
- ``predict_batch`` against a loop.

benchmarks/README.md explains the results.
"""

import argparse
import csv
import math
import os
import subprocess
import sys
import time
from contextlib import nullcontext
from itertools import chain
from pathlib import Path
from statistics import median

import numpy as np
import torch
from arguments import count
from results_folder import place_of
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF
from threadpoolctl import threadpool_limits

from sklearn_meta import MetaSemiSupervisedClassifier
from sklearn_meta.backbones import VSA
from sklearn_meta.backbones.standardisation import moments_of, standardise
from sklearn_meta.devices import gains_from_bfloat16
from sklearn_meta.weights import available_weights, load_learner

#: Numbers of rows and columns of the tasks that the backbone reads.
SHAPES = [(1000, 30), (200, 100)]
N_CLASSES = 2
FIELDS = ["benchmark", "case", "ours", "against", "ms_ours", "ms_against", "time_ratio"]
MEMORY_FIELDS = ["mib_ours", "mib_against", "memory_ratio"]


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="smaller tasks, fewer repetitions")
    parser.add_argument("--device", default="cpu", help="of the backbone and the attention")
    parser.add_argument("--threads", type=count, default=1, help="threads on CPU")
    parser.add_argument("--output", help="without an ending [benchmarks/results/speed, or _quick]")
    parser.add_argument("--peak-memory", nargs=5, help=argparse.SUPPRESS)  # see peak_memory
    args = parser.parse_args(arguments)
    args.output = place_of(args.output, "speed", args.quick)
    torch.set_num_threads(args.threads)
    if args.peak_memory:
        print(measure_peak(*args.peak_memory, device=args.device))
        return

    shapes, n_repeats = ([(200, 10), (50, 30)], 3) if args.quick else (SHAPES, 9)
    rows = []
    with threadpool_limits(args.threads):  # otherwise scikit-learn uses all cores
        for row in chain(
            backbone_rows(shapes, n_repeats, args),
            attention_rows(shapes, n_repeats, args),
            estimator_rows(10 if args.quick else 100),
            batch_rows(32 if args.quick else 256, n_repeats),
        ):
            rows.append(row)
            print(as_text(row), flush=True)
    write(rows, Path(args.output), args)


def interleaved(functions, n_repeats, device="cpu"):
    """Median milliseconds of each function; they take turns, so a busy machine slows all alike.

    Parameters
    ----------
    functions : dict of str to callable without arguments
    n_repeats : int
        Minimum number of timed calls of each, after one that is not timed. Short calls are repeated
        for half a second, at most 200 times, unless only one timed call is asked for.
    device : str
        Device to synchronise after each call.
    """
    times = {name: [] for name in functions}
    begin = time.perf_counter()
    for i in range(201):
        if i > n_repeats and (n_repeats == 1 or time.perf_counter() - begin > 0.5):
            break
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            if device.startswith("cuda"):
                torch.cuda.synchronize(device)
            times[name].append(1000 * (time.perf_counter() - start))
    return {name: median(values[1:]) for name, values in times.items()}


def conditions():
    """Return a sentence on the software, machine and load of a run on one thread."""
    return (
        f"torch {torch.__version__}, one thread of {os.cpu_count()} cores, load "
        f"{os.getloadavg()[0]:.1f} before the run."
    )


def publish(lines, output):
    """Write lines to a file and print them."""
    output = Path(output)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text("\n".join([*lines, ""]), "utf-8")
    print(output.read_text("utf-8"))


def dtypes(device, bfloat16="bfloat16"):
    """Return "float32", and ``bfloat16`` unless the device emulates it, which takes minutes."""
    return ["float32", bfloat16] if gains_from_bfloat16(device) else ["float32"]


def row_of(benchmark, case, milliseconds):
    """Return a row of the result from two named times, ours first."""
    (ours, ms_ours), (against, ms_against) = milliseconds.items()
    return {
        "benchmark": benchmark,
        "case": case,
        "ours": ours,
        "against": against,
        "ms_ours": ms_ours,
        "ms_against": ms_against,
        "time_ratio": ms_against / ms_ours,
    }


# The backbone against the equations as they are written


def prototypes_backbone(device):
    """Return the backbone of the weights `prototypes`, or a random one without these weights."""
    torch.manual_seed(0)
    known = "prototypes" in available_weights()
    backbone = load_learner("prototypes").backbone if known else VSA()
    return backbone.to(device).requires_grad_(True)


def random_task(n_rows, n_columns, device):
    """x (1, N, M) and labels (1, N, classes) of a task with 5 labelled rows per class."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(1, n_rows, n_columns, generator=generator)
    labels = torch.full((1, n_rows, N_CLASSES), math.nan)
    labels[0, : 5 * N_CLASSES] = torch.eye(N_CLASSES).repeat(5, 1)
    return x.to(device), labels.to(device)


def ours(backbone, x, labels):
    """Embeddings (N, M, last_width), computed by the package."""
    readable = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device)
    columns = readable.new_ones(1, x.shape[2])
    classes = readable.new_ones(1, N_CLASSES)
    return backbone(x, labels, readable, columns, classes)[0][0]


def einsum(backbone, x, labels):
    """The same embeddings by Eq. (1)-(8) of paper 000, one einsum per formula."""
    moments = moments_of(x, torch.ones(x.shape[:2], dtype=torch.bool, device=x.device))
    z = backbone.input_tensor(standardise(x, moments), labels)[0]
    for block in backbone.blocks:
        if block.mode == "examples":
            o = einsum_attention(block.attention, z)
        else:
            o = einsum_attention(block.attention, z.transpose(0, 1)).transpose(0, 1)
        z = block.residual(z) + block.feed_forward(block.norm(o))
    return z[:, : x.shape[2]]


def einsum_attention(layer, z):
    """Eq. (1)-(4) for one tensor (D1, D2, D3); r runs over the heads."""
    R, H = layer.n_heads, layer.head_width
    w_q, w_k, w_v = layer.project.weight.view(3, R, H, -1)
    q = torch.einsum("nmd,rhd->rnmh", z, w_q)  # Eq. (1)
    k = torch.einsum("nmd,rhd->rnmh", z, w_k)
    v = torch.einsum("nmd,rhd->rnmh", z, w_v)
    logits = torch.einsum("rimh,rjmh->rij", q, k) / math.sqrt(z.shape[1] * H)
    a = logits.softmax(dim=2)  # Eq. (2)
    o = torch.einsum("rij,rjmh->rimh", a, v)  # Eq. (3)
    return torch.einsum("rnmh,orh->nmo", o, layer.merge.weight.view(-1, R, H))  # Eq. (4)


IMPLEMENTATIONS = {"ours": ours, "einsum": einsum}


def step(name, backbone, x, labels, dtype, direction):
    """Run a forward pass, with or without its backward pass."""
    bf16 = dtype == "bfloat16"
    with torch.autocast(x.device.type, torch.bfloat16) if bf16 else nullcontext():
        if direction == "forward":
            with torch.no_grad():
                return IMPLEMENTATIONS[name](backbone, x, labels)
        loss = IMPLEMENTATIONS[name](backbone, x, labels).float().square().mean()
    loss.backward()
    backbone.zero_grad(set_to_none=True)


def backbone_rows(shapes, n_repeats, args):
    """Time and peak memory of the whole backbone, ours against einsum."""
    backbone = prototypes_backbone(args.device)
    for n_rows, n_columns in shapes:
        x, labels = random_task(n_rows, n_columns, args.device)
        with torch.no_grad():
            torch.testing.assert_close(
                ours(backbone, x, labels), einsum(backbone, x, labels), rtol=1e-4, atol=1e-4
            )
        for dtype in dtypes(args.device):
            for direction in ("forward", "forward+backward"):
                calls = {
                    name: lambda name=name: step(name, backbone, x, labels, dtype, direction)  # noqa: B023
                    for name in IMPLEMENTATIONS
                }
                case = f"N={n_rows}, columns={n_columns}, {dtype}, {direction}"
                row = row_of("backbone", case, interleaved(calls, n_repeats, args.device))
                peak = [
                    peak_memory(name, n_rows, n_columns, dtype, direction, args=args)
                    for name in IMPLEMENTATIONS
                ]
                row |= dict(zip(MEMORY_FIELDS, [*peak, peak[1] / peak[0]]))
                yield row


def peak_memory(*measurement, args):
    """Peak memory of one step in MiB, measured in a separate process."""
    command = [sys.executable, __file__, "--device", args.device, "--threads", str(args.threads)]
    command += ["--peak-memory", *map(str, measurement)]
    return float(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


def measure_peak(name, n_rows, n_columns, dtype, direction, device):
    """Peak memory of this process in one step, less the memory before; on CUDA that of torch."""
    backbone = prototypes_backbone(device)
    # First a step on a tiny task, so that libraries loaded late do not count.
    step(name, backbone, *random_task(20, 3, device), dtype, direction)
    x, labels = random_task(int(n_rows), int(n_columns), device)
    if device.startswith("cuda"):
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        step(name, backbone, x, labels, dtype, direction)
        return (torch.cuda.max_memory_allocated(device) - before) / 2**20
    before = high_water_mark()
    step(name, backbone, x, labels, dtype, direction)
    return high_water_mark() - before


def high_water_mark():
    """Largest resident memory of this process so far, MiB (Linux).

    ``ru_maxrss`` does not serve: on Linux a child process inherits its parent's.
    """
    for line in Path("/proc/self/status").read_text("utf-8").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise OSError("/proc/self/status has no VmHWM: peak memory is measured on Linux only.")


# The attention: two ways to compute Eq. (2) and (3) from folded queries, keys and values


def attention_rows(shapes, n_repeats, args):
    """Compare folded matrix products with torch's fused attention, along rows and columns."""
    layer = prototypes_backbone(args.device).blocks[1].attention
    for n_rows, n_columns in shapes:
        S = n_columns + N_CLASSES
        for mode, D1, D2 in (("rows", n_rows, S), ("columns", S, n_rows)):
            size = (1, layer.n_heads, D1, D2 * layer.head_width)
            readable = torch.ones(1, D1, dtype=torch.bool, device=args.device)
            voting = torch.ones(1, D2, dtype=torch.bool, device=args.device)
            for dtype in dtypes(args.device):
                torch.manual_seed(0)
                like = {"device": args.device, "dtype": getattr(torch, dtype)}
                qkv = [torch.randn(size, **like, requires_grad=True) for _ in range(3)]

                def folded(q, k, v, readable=readable, voting=voting):
                    return layer.weights(q, k, readable, voting) @ v

                fused = (
                    torch.nn.functional.scaled_dot_product_attention
                )  # it has the scale of Eq. (2)
                if dtype == "float32":
                    torch.testing.assert_close(folded(*qkv), fused(*qkv), rtol=1e-4, atol=1e-4)
                for direction in ("forward", "forward+backward"):
                    calls = {
                        name: lambda f=f: attend(f, qkv, direction)  # noqa: B023
                        for name, f in {"folded matmul": folded, "fused attention": fused}.items()
                    }
                    case = f"N={n_rows}, columns={n_columns}, along {mode}, "
                    case += f"{dtype}, {direction}"
                    yield row_of("attention", case, interleaved(calls, n_repeats, args.device))


def attend(function, qkv, direction):
    if direction == "forward":
        with torch.no_grad():
            function(*qkv)
        return
    function(*qkv).float().square().mean().backward()
    for tensor in qkv:
        tensor.grad = None


# The estimator


def few_shot_task(seed, n_labelled, n_unlabelled, n_columns, n_classes=2):
    """X_labelled, y_labelled, X_unlabelled of Gaussian classes with equally many rows."""
    rng = np.random.default_rng(seed)
    y = np.arange(n_labelled + n_unlabelled) % n_classes
    centres = rng.standard_normal((n_classes, n_columns))
    X = rng.standard_normal((len(y), n_columns)) + centres[y]
    return X[:n_labelled], y[:n_labelled], X[n_labelled:]


def estimator_rows(n_repeats):
    """Compare ``fit`` and ``predict`` of a 5-shot task of 100 rows with Gaussian processes."""
    peers = {
        "GaussianProcess, default kernel (fixed)": GaussianProcessClassifier(),
        "GaussianProcess, kernel fitted": GaussianProcessClassifier(1.0 * RBF(10**0.5)),
    }
    for n_classes in (2, 4):
        n_labelled = 5 * n_classes
        X, y, X_unlabelled = few_shot_task(0, n_labelled, 100 - n_labelled, 10, n_classes)
        for dtype in dtypes("cpu", "auto"):
            meta = MetaSemiSupervisedClassifier(device="cpu", dtype=dtype)
            for name, peer in peers.items():
                calls = {
                    "ours": lambda meta=meta: meta.fit(X, y).predict(X_unlabelled),  # noqa: B023
                    name: lambda peer=peer: peer.fit(X, y).predict(X_unlabelled),  # noqa: B023
                }
                case = f"fit and predict, {n_labelled} labelled and {100 - n_labelled} unlabelled "
                case += f"rows, {n_classes} classes, 10 columns, dtype={dtype}"
                yield row_of("estimator", case, interleaved(calls, n_repeats))


def batch_rows(n_tasks, n_repeats):
    """Compare ``predict_batch`` of many tasks with a loop over them."""
    for dtype in dtypes("cpu", "auto"):
        meta = MetaSemiSupervisedClassifier(device="cpu", dtype=dtype)
        for n_labelled, n_unlabelled, n_columns in ((4, 8, 4), (10, 40, 8)):
            size = (n_labelled, n_unlabelled, n_columns)
            tasks = [few_shot_task(seed, *size) for seed in range(n_tasks)]

            def loop(tasks=tasks, meta=meta):
                return [meta.fit(X, y).predict(X_unlabelled) for X, y, X_unlabelled in tasks]

            def batch(tasks=tasks, meta=meta):
                return meta.predict_batch(tasks)

            agreement = np.mean(np.concatenate(loop()) == np.concatenate(batch()))
            # Rounding may decide ties, more often in bfloat16; larger differences are errors.
            least = 0.99 if dtype == "float32" else 0.98
            assert agreement > least, f"predict_batch and the loop agree on {agreement:.3f} only"
            case = f"{n_tasks} tasks of {n_labelled} labelled and {n_unlabelled} unlabelled rows, "
            case += f"{n_columns} columns, dtype={dtype}"
            calls = {"predict_batch": batch, "loop": loop}
            yield row_of("batch", case, interleaved(calls, n_repeats))


# The report


def as_text(row):
    text = f"{row['benchmark']}: {row['case']}: {row['ours']} {row['ms_ours']:.1f} ms, "
    text += f"{row['against']} {row['ms_against']:.1f} ms, ratio {row['time_ratio']:.2f}"
    if "memory_ratio" in row:
        text += f"; {row['mib_ours']:.0f} and {row['mib_against']:.0f} MiB, "
        text += f"ratio {row['memory_ratio']:.2f}"
    elif row["benchmark"] == "attention":
        text += f": {row['ours'] if row['time_ratio'] >= 1 else row['against']} is faster"
    return text


def write(rows, output, args):
    """Write all rows as CSV and a Markdown table per benchmark."""
    output.parent.mkdir(parents=True, exist_ok=True)
    with open(output.with_suffix(".csv"), "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, FIELDS + MEMORY_FIELDS)
        writer.writeheader()
        writer.writerows(rows)
    where = f"{args.threads} thread(s) of {os.cpu_count()} cores"
    if args.device != "cpu":
        where = f"{torch.cuda.get_device_name(args.device)}; estimators on {where}"
    quick = ", --quick" if args.quick else ""
    emulated = dtypes(args.device) == ["float32"]
    left_out = " bfloat16 is left out: this device emulates it." if emulated else ""
    lines = [
        f"torch {torch.__version__}, {where}{quick}.{left_out} Medians; ratios above 1: ours is "
        "better.",
        "",
    ]
    for name in dict.fromkeys(row["benchmark"] for row in rows):
        members = [row for row in rows if row["benchmark"] == name]
        fields = FIELDS[1:] + (MEMORY_FIELDS if "memory_ratio" in members[0] else [])
        lines += [f"### {name}", "", "| " + " | ".join(fields) + " |", "|---" * len(fields) + "|"]
        for row in members:
            cells = (f"{v:.2f}" if isinstance(v := row[f], float) else str(v) for f in fields)
            lines.append("| " + " | ".join(cells) + " |")
        lines.append("")
    output.with_suffix(".md").write_text("\n".join(lines), "utf-8")
    print(f"written to {output.with_suffix('.md')} and {output.with_suffix('.csv')}")


if __name__ == "__main__":
    main()

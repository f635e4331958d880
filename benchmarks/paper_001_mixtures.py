"""Tables 4 and 11 of paper 001: Set Transformer against its rivals at fitting mixtures.

Each network reads a set of points and outputs the parameters of its Gaussian mixture. Networks are
trained on the likelihood of the points they read, Eq. (15) as a mean, and compared on the synthetic
sets of benchmarks/mixtures.py. That benchmark has the results of scikit-learn and AmortizedGMM.

    python benchmarks/paper_001_mixtures.py                # ten methods of the tables
    python benchmarks/paper_001_mixtures.py --quick --output /tmp/mixtures

Trained networks are kept under ``--checkpoints``, so a killed run resumes where it ended.
"""

import argparse
from pathlib import Path

import pandas as pd
import torch
from arguments import count
from mixture_methods import moments, padded
from mixture_sets import draw_sets
from mixtures import RUNS, measure
from results_folder import place_of
from torch import nn

from sklearn_meta.backbones import SetTransformer
from sklearn_meta.heads import LearnedMoments
from sklearn_meta.heads.gaussian_mixture import Mixture
from sklearn_meta.tasks import MixtureSampler, MixtureSets
from sklearn_meta.training import meta_train

#: Methods of Tables 4 and 11, with the paper's LL0 and LL1.
METHODS = {
    "rFF + Pooling": ({"encoder": "rff", "pooling": "mean"}, -2.0006, -1.6186),
    "rFFp-mean + Pooling": ({"encoder": "rffp_mean", "pooling": "mean"}, -1.7606, -1.5191),
    "rFFp-max + Pooling": ({"encoder": "rffp_max", "pooling": "mean"}, -1.7692, -1.5103),
    "rFF + Dotprod": ({"encoder": "rff", "pooling": "dotprod"}, -1.8549, -1.5621),
    "SAB + Pooling": ({"encoder": "sab", "pooling": "mean"}, -1.6772, -1.5070),
    "ISAB (16) + Pooling": ({"encoder": "isab", "pooling": "mean"}, -1.6955, -1.4742),
    "rFF + PMA": ({"encoder": "rff", "pooling": "pma"}, -1.6680, -1.5409),
    "Set Transformer": ({"encoder": "sab", "pooling": "pma"}, -1.5145, -1.4619),
    "Set Transformer (16)": ({"encoder": "isab", "pooling": "pma"}, -1.5009, -1.4530),
    "Set Transformer (32)": (
        {"encoder": "isab", "pooling": "pma", "n_inducing": 32},
        -1.4963,
        -1.4524,
    ),
}
#: Smallest variance of a network's mixtures, in units of a column's; without it losses become NaN.
LEAST = 1e-3


class DirectMixture(nn.Module):
    """A Set Transformer, or a rival, whose outputs are weights, means and variances (Eq. 15)."""

    def __init__(self, n_components, n_columns, **config):
        super().__init__()
        self.shape = n_components, n_columns
        n_numbers = 1 + 2 * n_columns
        seeds = config["pooling"] == "pma"
        self.network = SetTransformer(
            n_columns,
            n_numbers if seeds else n_components * n_numbers,
            n_seeds=n_components if seeds else 1,
            **config,
        )
        self.head = LearnedMoments()

    @property
    def config(self):
        return {"shape": list(self.shape), **self.network.config}

    def forward(self, x, mask, columns, n_components=None, covariance_type=None):
        n_components, n_columns = self.shape
        output = self.network(x, mask).float().view(len(x), n_components, -1)
        weights, means, widths = output.split([1, n_columns, n_columns], dim=-1)
        variances = nn.functional.softplus(widths) + LEAST
        return [Mixture(weights[..., 0].log_softmax(-1), means, variances), columns]


class InSample(MixtureSampler):
    """Sampler of tasks that are scored on the points that the network reads, as in Eq. (15)."""

    def draw(self, dataset, rng):
        task = super().draw(dataset, rng)
        return task._replace(held_out=task.X)


def trained(name, args):
    """Return the network of a method, trained or from its checkpoint."""
    torch.manual_seed(args.seed)
    config = {"width": args.width, "norm": "pre", **METHODS[name][0]}
    learner = DirectMixture(4, 2, **config)
    # Trainings of another budget or width, such as those of --quick, have their own checkpoints.
    settings = f"{name}-{args.seed}-{args.steps}x{args.batch_size}-{args.width}"
    history = meta_train(
        learner,
        MixtureSets(),
        InSample(("diag",), other_k=0),
        max_steps=args.steps,
        batch_size=args.batch_size,
        learning_rate=1e-3,
        n_groups=1,
        eval_every=max(args.steps // 10, 1),
        checkpoint_dir=Path(args.checkpoints) / settings.replace(" ", "_"),
        precision="float32",
        random_state=args.seed,
        verbose=False,
    )
    losses = history[:, "train_loss"]
    print(f"{name}: loss {losses[0]:.3f} .. {losses[-1]:.3f}", flush=True)
    return learner


def method(learner, batch=50):
    """Return a method for benchmarks/mixtures.py.

    It maps sets and k to a Mixture in the units of the points.
    """

    @torch.inference_mode()
    def fit(sets, k):
        parts = []
        for start in range(0, len(sets), batch):
            x, mask = padded(sets[start : start + batch])
            mean, variance = moments(x, mask)
            scale = variance.sqrt()
            x = ((x - mean) / scale).masked_fill(~mask[..., None], 0).float()
            found, _ = learner(x, mask, torch.ones(len(x), x.shape[2], dtype=bool))
            log_weights, means, variances = (values.double() for values in found)
            parts.append((log_weights, means * scale + mean, variances * scale.square()))
        return Mixture(*(torch.cat(values) for values in zip(*parts)))

    return fit


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--steps", type=count, default=2000, help="the paper: 50,000")
    parser.add_argument("--batch-size", type=count, default=10)
    parser.add_argument("--width", type=count, default=64, help="the paper: 128")
    parser.add_argument("--n-sets", type=count, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="few steps and sets")
    parser.add_argument("--checkpoints", default="checkpoints/paper_001_mixtures")
    parser.add_argument("--output", help="folder [benchmarks/results/paper_001, or _quick]")
    args = parser.parse_args(arguments)
    args.output = place_of(args.output, "paper_001", args.quick)
    if args.quick:
        args.steps, args.n_sets, args.width = 4, 6, 16
    torch.set_num_threads(1)
    family, ((k, d),), n_points, _ = RUNS["paper"]
    sets = draw_sets(family, k, d, n_points, args.n_sets, seed=0)
    rows = measure(sets, k, {name: method(trained(name, args).eval()) for name in args.only})
    write(rows, args)


def write(rows, args):
    """Write the table, with the paper's figures beside ours."""
    scores = ["ll0", "ll1", "held_out", "ari", "ms"]
    mean, error = (
        getattr(rows.groupby("method", sort=False)[scores], f)() for f in ("mean", "sem")
    )
    lines = [
        "| method | LL0 | LL1 | held out | ARI | ms a set | paper's LL0, LL1 |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, row in mean.iterrows():
        paper = (-1.4726, None) if name == "oracle" else METHODS[name][1:]
        own = [f"{row[s]:.4f} ± {error.loc[name, s]:.4f}" for s in scores[:-1]]
        paper = ", ".join(f"{value:.4f}" for value in paper if value is not None)
        lines.append(f"| {name} | {' | '.join(own)} | {row['ms']:.2f} | {paper} |")
    settings = f"--steps {args.steps} --batch-size {args.batch_size} --width {args.width}"
    text = (
        f"`python benchmarks/paper_001_mixtures.py {settings} --n-sets {args.n_sets} --seed "
        f"{args.seed}`: standard errors are over sets; one network a method.\n\n"
    )
    folder = Path(args.output)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "mixtures.md").write_text(text + "\n".join(lines) + "\n", "utf-8")
    pd.concat([mean, error.add_suffix("_sem")], axis=1).to_csv(folder / "mixtures.csv")
    print("\n".join(lines))


if __name__ == "__main__":
    main()

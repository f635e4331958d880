"""The ablations of paper 003 (section 4.4), trained as long as a GPU manages in some minutes.

Compares the six variants, A1 to A8, of the Few-Shot Transformer on Omniglot's drawings, 5 ways and
1 shot, from pixels, for 100,000 steps and more.

    python benchmarks/paper_003_long.py --minutes 25
    python benchmarks/paper_003_long.py --minutes 15 --rates 1e-5

Networks have two layers of width 64 and no dropout. They are trained by Adam under Noam's schedule,
on batches of 32 sequences of five labelled drawings and one query. All variants train side by side
on the same episodes, which the GPU draws. Networks are compiled and convolutions are in bfloat16.
Steps are recorded once as CUDA graphs; launched one by one, kernels would wait for the host. Every
`--look` steps, scores and losses are added to long.csv, and the state of each run is saved under
`--cache`: the same command resumes from there.
"""

import argparse
import math
import time
from pathlib import Path

import pandas as pd
import torch
from arguments import add_folder, count
from paper_003_report import curves
from paper_003_settings import of_paper
from paper_003_tasks import SIDE, episodes, make_learner, omniglot
from results_folder import place_of
from safetensors import safe_open
from safetensors.torch import save_file
from torch.nn.functional import affine_grid, grid_sample

from sklearn_meta.backbones.few_shot_transformer import VARIANTS
from sklearn_meta.devices import usable_device
from sklearn_meta.optimizers import rate_at
from sklearn_meta.tasks.drawings import SHIFT, TILT

#: Ways, and sequences per step (section 3.4).
N_WAYS, BATCH_SIZE = 5, 32

#: Warm-up steps of the schedule, as in Vaswani et al. (2017); the paper names no number.
N_WARMUP = 4000

#: Number of steps that are recorded and replayed together.
N_RECORDED = 10

#: Largest norm of the gradient.
CLIP = 1.0


class Episodes:
    """Draws episodes on the device, augmented as :class:`sklearn_meta.tasks.Drawings` does.

    Parameters
    ----------
    dataset : Dataset
        Drawings, equally many of each class.
    device : str
    """

    def __init__(self, dataset, device):
        y = torch.from_numpy(dataset.y).to(device)
        side = math.isqrt(dataset.X.shape[1])
        self.pictures = torch.from_numpy(dataset.X).to(device).view(-1, 1, side, side)
        self.rows = y.argsort(stable=True).view(dataset.n_classes, -1)  # of each class
        self.device = device

    def draw(self, n):
        """Draw n sequences (n, N_WAYS + 1, SIDE * SIDE), query last, and the query's class (n,)."""
        n_classes, n_drawings = self.rows.shape
        classes = self._uniform(n, n_classes).topk(N_WAYS).indices
        chosen = self._uniform(n, N_WAYS, n_drawings).topk(2).indices
        rows = self.rows[classes].gather(
            2, chosen
        )  # two per class: one labelled, one a candidate query
        target = (self._uniform(n) * N_WAYS).long().clamp(max=N_WAYS - 1)
        asked = rows[..., 1].gather(1, target[:, None])
        rows = torch.cat([rows[..., 0], asked], 1)
        quarters = (self._uniform(n, N_WAYS) * 4).floor()
        quarters = torch.cat([quarters, quarters.gather(1, target[:, None])], 1)
        angle = TILT * (2 * self._uniform(*rows.shape) - 1) + math.pi / 2 * quarters
        shift = 2 * SHIFT * (2 * self._uniform(2, *rows.shape) - 1)
        cos, sin = angle.cos(), angle.sin()
        maps = torch.stack([cos, -sin, shift[0], sin, cos, shift[1]], -1).view(-1, 2, 3)
        places = affine_grid(maps, (len(maps), 1, SIDE, SIDE), align_corners=False)
        pictures = self.pictures[rows.flatten()].float() / 255
        drawn = grid_sample(pictures, places, align_corners=False).clamp(0, 1)
        return drawn.view(*rows.shape, SIDE * SIDE), target

    def _uniform(self, *shape):
        return torch.rand(shape, device=self.device)


class Run:
    """Training of one variant at one rate, on episodes that all runs share.

    Parameters
    ----------
    settings : Settings
    data : Data
    seed : int
    pictures, target : tensors
        Buffers for the episodes of N_RECORDED steps.
    file : Path
        File of its state.
    """

    def __init__(self, settings, data, seed, pictures, target, file):
        self.file = file
        attention = settings.config["attention"]
        n_latent = settings.config["n_latent"]
        # Columns of long.csv that identify the run.
        self.names = {"rate": settings.rate, "n_latent": n_latent, "seed": seed, "model": attention}
        self.learner = make_learner(data, settings.backbone, settings.config, seed)
        self.learner.to(pictures.device)
        self.settings, self.pictures, self.target = settings, pictures, target
        device = pictures.device
        self.rate = torch.zeros((), device=device)  # read by the recorded steps
        self.loss = torch.zeros((), device=device)  # sum since the last look
        self.labels = torch.arange(N_WAYS, device=device).expand(BATCH_SIZE, -1)
        on_gpu = device.type == "cuda"
        self.loss_of = torch.compile(loss_of, dynamic=False) if on_gpu else loss_of
        self.optimizer = torch.optim.Adam(
            self.learner.parameters(),
            lr=self.rate,
            fused=True,
            capturable=on_gpu,
        )

    def steps(self):
        """Run N_RECORDED steps; this is what the CUDA graph records."""
        for pictures, target in zip(self.pictures, self.target):
            self.optimizer.zero_grad(set_to_none=True)
            loss = self.loss_of(self.learner, pictures, self.labels, target)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.learner.parameters(), CLIP, foreach=True)
            self.optimizer.step()
            self.loss += loss.detach()

    def save(self, step):
        """Save the state after this step; if killed meanwhile, the previous state is kept."""
        state = {f"learner.{name}": t for name, t in self.learner.state_dict().items()}
        for i, parameter in enumerate(self.learner.parameters()):
            moments = self.optimizer.state[parameter]
            state |= {f"adam.{i}.{name}": t for name, t in moments.items()}
        self.file.parent.mkdir(parents=True, exist_ok=True)
        part = self.file.with_suffix(".part")
        save_file({k: t.contiguous() for k, t in state.items()}, part, {"step": str(step)})
        part.replace(self.file)

    @torch.no_grad()
    def restore(self):
        """Load the saved state in place and return its step, 0 if there is none."""
        if not self.file.exists():
            return 0
        own = self.learner.state_dict()
        parameters = list(self.learner.parameters())
        with safe_open(self.file, "pt") as kept:
            for key in kept.keys():
                kind, name = key.split(".", 1)
                value = kept.get_tensor(key).to(self.pictures.device)
                if kind == "adam":
                    i, name = name.split(".")
                    own_moments = self.optimizer.state[parameters[int(i)]]
                    own_moments.setdefault(name, torch.empty_like(value)).copy_(value)
                else:
                    own[name].copy_(value)
            return int(kept.metadata()["step"])

    def look(self, n_steps, scored):
        """Return a row of long.csv: mean loss since the last row, and accuracy on each split."""
        row = {
            **self.names,
            "train_loss": self.loss.item() / n_steps,
            **{split: self.accuracy(found) for split, found in scored.items()},
        }
        self.loss.zero_()
        return row

    @torch.inference_mode()
    def accuracy(self, scored):
        """Mean score over batches of episodes."""
        self.learner.eval()
        scores = [self.learner.head.score(self.learner(**i), y) for i, y in scored]
        self.learner.train()
        return torch.cat(scores).double().mean().item()


class Together:
    """Runs that train on the same episodes, on a GPU each in a stream of its own.

    Parameters
    ----------
    refill : callable
        Draws the episodes of N_RECORDED steps.
    runs : list of Run
    device : str
    """

    def __init__(self, refill, runs, device):
        self.runs = runs
        self.streams = [torch.cuda.Stream() for _ in runs] if device != "cpu" else []
        if self.streams:
            with torch.no_grad():
                refill = recorded(refill, torch.cuda.Stream())
        self.refill = refill
        # Recording runs the steps at a rate of 0, so the weights stay as they were.
        self.of_run = [recorded(run.steps, stream) for run, stream in zip(runs, self.streams)]
        for run in runs:
            run.loss.zero_()

    def steps(self, factor):
        """Run N_RECORDED steps of each run, at its rate times a factor."""
        self.refill()
        for run in self.runs:
            run.rate.fill_(factor * run.settings.rate)
        if not self.streams:
            for run in self.runs:
                run.steps()
            return
        here = torch.cuda.current_stream()
        for steps, stream in zip(self.of_run, self.streams):
            stream.wait_stream(here)
            with torch.cuda.stream(stream):
                steps()
        for stream in self.streams:
            here.wait_stream(stream)
        here.synchronize()  # otherwise the host runs ahead, and beyond the time limit


def loss_of(learner, pictures, labels, target):
    """Loss of a batch of sequences; on a GPU the image encoder computes in bfloat16."""
    with torch.autocast("cuda", torch.bfloat16, enabled=pictures.is_cuda):
        vectors = learner.encode(pictures)
    support, query = vectors.float().split([N_WAYS, 1], 1)
    return learner.head.loss(learner.compare(support, labels, query), target[:, None])


def recorded(function, stream):
    """Record a function as a CUDA graph; return a function that launches it at once."""
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):  # warm-up: libraries choose kernels, and optimisers create their state
            function()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        function()
    return graph.replay


def parse_arguments(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add = parser.add_argument
    add("--minutes", type=float, default=20, help="time limit [%(default)s]")
    add("--max-steps", type=count, default=1_000_000, help="[%(default)s, as the paper]")
    add("--rates", type=float, nargs="+", default=[1e-4], help="highest learning rates [1e-4]")
    add("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS), help="[all]")
    add("--seed", type=int, default=0)
    add("--n-latent", type=count, default=384, help="hidden units [%(default)s, section 3.4]")
    add("--n-filters", type=count, default=64, help="of the image encoder [%(default)s]")
    add("--n-test", type=count, default=2000, help="episodes for each score [%(default)s]")
    add("--look", type=count, default=5000, help="steps between evaluations [%(default)s]")
    add("--device", default="auto", help="[the CUDA GPU if there is one]")
    add("--cache", type=Path, default=Path("checkpoints/paper_003_long"), help="[%(default)s]")
    add("--output", type=Path, help="folder [benchmarks/results/paper_003, or _quick]")
    add("--quick", action="store_true", help="20 steps with few filters, learning nothing")
    add_folder(parser, "--omniglot", "omniglot", "folder of the drawings")
    parser.set_defaults(encoder=None)
    options = parser.parse_args(arguments)
    if options.quick:
        vars(options).update(max_steps=20, look=10, n_filters=4, n_test=20)
    options.output = place_of(options.output, "paper_003", options.quick)
    return options


def main(arguments=None):
    options = parse_arguments(arguments)
    device = usable_device(options.device)
    torch.backends.cuda.matmul.allow_tf32 = True
    torch._dynamo.config.recompile_limit = len(options.rates) * len(options.variants) + 1
    end = time.monotonic() + 60 * options.minutes
    data = omniglot(options)
    draws = Episodes(data.sources["train"].dataset, device)
    scored = {
        split: [
            ({name: t.to(device) for name, t in inputs.items()}, target.to(device))
            for inputs, target in episodes(data, split, options.n_test)
        ]
        for split in ("valid", "test")
    }
    shape = (N_RECORDED, BATCH_SIZE)
    pictures = torch.zeros(*shape, N_WAYS + 1, SIDE * SIDE, device=device)
    target = torch.zeros(shape, dtype=torch.long, device=device)

    def refill():
        drawn, asked = draws.draw(N_RECORDED * BATCH_SIZE)
        pictures.copy_(drawn.view_as(pictures))
        target.copy_(asked.view_as(target))

    runs = [
        Run(
            settings_of(name, rate, options.n_latent),
            data,
            options.seed,
            pictures,
            target,
            file_of(name, rate, options),
        )
        for rate in options.rates
        for name in options.variants
    ]
    trained = Together(refill, runs, device)
    options.output.mkdir(parents=True, exist_ok=True)
    file = options.output / "long.csv"
    rows = pd.read_csv(file).to_dict("records") if file.exists() else []
    steps = {run.restore() for run in runs}
    if len(steps) > 1:
        raise SystemExit(
            f"{options.cache} holds runs of {sorted(steps)} steps: go on with each alone."
        )
    step = looked = steps.pop()
    # Drop rows of these runs beyond the saved step: their state was lost, so they are redone.
    own = [run.names for run in runs]
    rows = [r for r in rows if r["step"] <= step or {k: r[k] for k in runs[0].names} not in own]
    while step < options.max_steps and time.monotonic() < end:
        if step == looked:  # episodes after an evaluation depend only on its step
            torch.manual_seed(1_000_003 * options.seed + step)
        trained.steps(rate_at(step + N_RECORDED // 2, 0, N_WARMUP, "noam"))
        step += N_RECORDED
        if step - looked < options.look:
            continue
        for run in runs:
            rows.append({"step": step, **run.look(step - looked, scored)})
            run.save(step)
        looked = step
        frame = pd.DataFrame(rows)
        frame.to_csv(file, index=False, float_format="%.6g")
        print(f"{step} steps, {end - time.monotonic():.0f} s left", flush=True)
        print(frame.tail(len(runs)).to_string(index=False), flush=True)
    if rows:
        curves(pd.DataFrame(rows), file.with_suffix(".png"))


def file_of(name, rate, options):
    """File of a run's state."""
    sizes = f"{options.n_filters}-{options.n_latent}-{options.look}-{options.seed}"
    return options.cache / f"{name}-{rate:g}-{sizes}.safetensors"


def settings_of(name, rate, n_latent):
    """Return the settings of section 4.4."""
    sizes = {"width": 64, "n_layers": 2, "n_latent": n_latent}
    return of_paper("few_shot_transformer", rate, "noam", attention=name, **sizes)


if __name__ == "__main__":
    main()

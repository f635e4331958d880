"""Recipe of the weights `default_mixture`: meta-trains AmortizedGMM's network and writes its card.

    python benchmarks/meta_train_mixtures.py --output default_mixture.safetensors

The loss is the held-out likelihood of synthetic sets. With ``--protocol``, the sets are those of
paper 001 (four spherical components in the plane). After a kill, the same command resumes.
"""

import argparse
from pathlib import Path

import torch
from recipe import last_look, save, start_from

from sklearn_meta.fingerprint import weights_digest
from sklearn_meta.mixture_learner import MixtureLearner
from sklearn_meta.tasks import MixturePrior, MixtureSampler, MixtureSets
from sklearn_meta.training import meta_train


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", default="default_mixture.safetensors")
    parser.add_argument("--checkpoint-dir", help="[checkpoints/ and the output's name]")
    parser.add_argument("--start", help="weights to start from [random ones]")
    parser.add_argument("--protocol", action="store_true", help="train only on the paper's sets")
    parser.add_argument("--max-steps", type=int, default=6000)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--n-rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args(arguments)

    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    learner = MixtureLearner(backbone_config={"width": args.width, "n_rounds": args.n_rounds})
    begun = start_from(learner, args.start)
    source = MixtureSets() if args.protocol else MixturePrior()
    kinds = ("diag", "full")
    sampler = MixtureSampler(kinds, other_k=0) if args.protocol else MixtureSampler()
    history = meta_train(
        learner,
        source,
        sampler,
        validation_source=source,
        max_steps=args.max_steps,
        batch_size=args.batch_size,
        learning_rate=args.learning_rate,
        n_groups=2,
        eval_every=250,
        n_validation=16,
        keep="last",
        ema_decay=0.998,
        checkpoint_dir=args.checkpoint_dir or Path("checkpoints") / Path(args.output).stem,
        start=weights_digest(learner),
        device=args.device,
        random_state=args.seed,
    )
    name = type(source).__name__
    watched = f"{name}, sets apart from those of training"
    validation = last_look(learner, history, sets=watched)
    data = f"{name}: synthetic sets alone"
    save(learner, args, __file__, data=data, validation=validation, **begun)


if __name__ == "__main__":
    main()

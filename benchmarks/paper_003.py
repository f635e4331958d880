"""The comparisons, ablations and searches of paper 003: Few-Shot Transformer, Transformer, SNAIL.

Meta-trains the models on 5-way 1-shot episodes and reports their accuracies beside the paper's.
Data are Omniglot's drawings, MiniImageNet's pictures, or the weights of networks that compute
symbolic functions ("symbolic").

    python benchmarks/paper_003.py --data symbolic --seeds 10
    python benchmarks/paper_003.py --data omniglot --encoder enc.safetensors --ablations --seeds 4
    python benchmarks/paper_003.py --data omniglot --weights omniglot_few_shot
    python benchmarks/paper_003.py --data symbolic --search 30
    python benchmarks/paper_003.py --data symbolic --found
    python benchmarks/paper_003.py --data omniglot --paper --seeds 10
    python benchmarks/paper_003.py --coefficients
    python benchmarks/paper_003.py --data symbolic --found --flow
    python benchmarks/paper_003.py --quick

benchmarks/README.md explains the protocol and the results. Each run (data x model x seed) is a row
of runs.csv, written when the run ends. The state of its training is kept under `--cache`, so a
killed command resumes where it ended.
"""

import argparse
import json
import time
from functools import partial
from pathlib import Path

import pandas as pd
import paper_003_flow as flow
import paper_003_report as report
import torch
from arguments import add_folder, count
from paper_003_settings import ABLATIONS, MODELS, PAPER
from paper_003_tasks import DATA, N_FUNCTIONS, accuracy, make_learner, sampler
from results_folder import place_of
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import RidgeCV
from sklearn.metrics import r2_score
from sklearn.neural_network import MLPRegressor

from sklearn_meta.backbones.few_shot_transformer import VARIANTS
from sklearn_meta.tasks import make_symbolic_regression
from sklearn_meta.training import meta_train
from sklearn_meta.weights import load_learner

#: Options that change a score, other than those of the model.
PROTOCOL = ("batch_size", "n_test", "n_functions", "n_filters")

#: Options set by --quick: too little to learn anything.
QUICK = {
    "max_steps": 4,
    "batch_size": 4,
    "n_test": 20,
    "n_functions": 0.01,
    "seeds": 2,
    "n_filters": 4,
}


def parse_arguments(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add = parser.add_argument
    add("--data", nargs="+", choices=DATA, default=["symbolic"], help="[symbolic]")
    add("--models", nargs="+", choices=MODELS, default=list(MODELS), help="[all]")
    add("--ablations", action="store_true", help="run A1 to A8 in place of the models")
    add("--search", type=count, metavar="N", help="search settings of each model by N trials")
    add("--flow", action="store_true", help="gradients of each part, and accuracy lost without it")
    add("--coefficients", action="store_true", help="predict coefficients from weights (A.1.4)")
    add("--seeds", type=count, default=3, help="runs of each model [%(default)s]; 10 in the paper")
    add("--max-steps", type=count, default=5000, help="steps of each run [%(default)s]")
    add("--batch-size", type=count, default=32, help="episodes per step [%(default)s]")
    add("--n-test", type=count, default=2000, help="episodes for each score [%(default)s]")
    add(
        "--n-functions",
        type=float,
        default=1.0,
        help="factor on the number of functions [%(default)s]",
    )
    add("--orders", type=count, default=1, help="orders of labelled rows to average [%(default)s]")
    add("--found", action="store_true", help="use the settings that --search found")
    add("--paper", action="store_true", help="use the settings that the paper reports")
    add("--dropout", type=float, default=0.0, help="of all models but SNAIL [%(default)s]")
    add("--n-latent", type=count, help="hidden units of all but SNAIL [256, or as --search found]")
    add("--n-filters", type=count, default=64, help="of the image encoder [%(default)s]")
    add("--encoder", help="weights whose image encoder all models use, without training it")
    add("--weights", nargs="+", help="score these weights and train nothing")
    add_folder(parser, "--omniglot", "omniglot", "folder of the drawings")
    add("--mini-imagenet", type=Path, help="folder of MiniImageNet")
    add("--cache", type=Path, default=Path("checkpoints/paper_003"), help="[%(default)s]")
    add("--output", type=Path, help="folder [benchmarks/results/paper_003, or _quick]")
    add("--quick", action="store_true", help="run everything in a minute, learning nothing")
    options = parser.parse_args(arguments)
    if options.quick:
        vars(options).update(QUICK)
    options.output = place_of(options.output, "paper_003", options.quick)
    if options.encoder and options.data != ["omniglot"]:
        parser.error("--encoder is for --data omniglot alone")
    if "mini_imagenet" in options.data and options.mini_imagenet is None:
        parser.error("--data mini_imagenet: give its folder by --mini-imagenet")
    if options.search and (
        options.ablations or options.dropout or options.n_latent or options.found
    ):
        given = "--ablations, --dropout, --n-latent and --found"
        parser.error(f"--search finds settings: leave out {given}")
    if options.ablations and options.models != list(MODELS):
        parser.error("--ablations stand in place of --models: leave one of them out")
    if options.found and (options.ablations or options.dropout):
        parser.error("--found has the settings of a search: leave out --ablations and --dropout")
    if options.paper and (options.found or options.search or options.dropout):
        parser.error("--paper has settings of its own: leave out --found, --search and --dropout")
    if options.flow and (options.search or options.weights or options.coefficients):
        parser.error("--flow trains: leave out --search, --weights and --coefficients")
    if options.flow:  # SNAIL does not have these parts
        options.models = [m for m in options.models if m != "snail"]
        if not options.models:
            parser.error("--flow looks at the networks of transformers, which SNAIL has not")
    if (options.paper or options.found) and (options.weights or options.coefficients):
        parser.error("--weights and --coefficients train no model: leave out --paper and --found")
    return options


def main(arguments=None):
    options = parse_arguments(arguments)
    torch.set_num_threads(1)  # several trainings at once would wait for each other's threads
    options.output.mkdir(parents=True, exist_ok=True)
    if options.coefficients:
        write_coefficients(options)
        return
    if options.weights:
        scores = [row for name in options.data for row in score_weights(name, options)]
        file = options.output / "weights.csv"
        pd.DataFrame(scores).to_csv(file, index=False, float_format="%.6g")
        return
    flows = []
    for name in options.data:
        data = DATA[name](options)
        if options.search:
            search(name, data, options)
            continue
        models = {m: overridden(s, options) for m, s in settings_of(name, options).items()}
        if options.flow:
            flows += flow_of(name, data, models, options)
            continue
        for seed in range(options.seeds):
            for model in models:
                run(name, data, model, models[model], seed, options)
    if options.flow:
        flow.write(flows, options.output)
    elif not options.search:
        report.write(options.output)


def settings_of(name, options):
    """Return the models, or ablations, and their training settings on this data."""
    if options.ablations:
        if not options.paper:
            return ABLATIONS
        # Section 4.4, for all data. It prints a rate of 1e-54, which we read as 1e-4.
        ours = PAPER[name]["few_shot_transformer"]._replace(rate=1e-4, schedule="noam")
        config = {"width": 64, "n_layers": 2}
        return {m: ours._replace(config={**config, "attention": m}) for m in VARIANTS}
    if options.found:
        return {m: found_settings(name, m, options) for m in options.models}
    known = PAPER[name] if options.paper else MODELS
    return {m: known[m] for m in options.models}


def overridden(settings, options):
    """Apply --dropout and --n-latent to settings; SNAIL has neither."""
    given = {"dropout": options.dropout, "n_latent": options.n_latent}
    if settings.backbone == "snail":
        return settings
    return settings._replace(config=settings.config | {k: v for k, v in given.items() if v})


def run(name, data, model, settings, seed, options):
    """Train a model from a seed and add its scores to runs.csv, unless they are there."""
    file = options.output / "runs.csv"
    key = key_of(name, model, settings, seed, options)
    done = pd.read_csv(file).to_dict("records") if file.exists() else []
    if any(all(row[k] == v for k, v in key.items()) for row in done):
        return
    start = time.process_time()
    learner = make_learner(data, settings.backbone, settings.config, seed)
    history = train(learner, data, settings, seed, options, folder_of(options, key))
    row = {
        **key,
        "n_parameters": sum(p.numel() for p in learner.parameters()),
        "seconds": time.process_time() - start,
        "train_loss": history[-1, "train_loss"],
    }
    for split in ("valid", "test"):
        scores = accuracy(learner, data, split, options.n_test, n_orders=options.orders)
        row[split], row[f"{split}_se"] = scores
    print(f"{key['data']} {model} seed {seed}: valid {row['valid']:.4f}, test {row['test']:.4f}")
    pd.DataFrame([*done, row]).to_csv(file, index=False, float_format="%.6g")


def flow_of(name, data, models, options):
    """Return a row for each run and part; trainings are cached for the next command."""
    rows = []
    for seed in range(options.seeds):
        for model, settings in models.items():
            key = key_of(name, model, settings, seed, options)
            told = {"settings": settings, "seed": seed, "folder": folder_of(options, key)}
            trained = partial(train, data=data, options=options, **told)
            learner = make_learner(data, settings.backbone, settings.config, seed)
            found = flow.measure(learner, data, trained, options.n_test, options.orders)
            rows += [{**key, **row} for row in found]
    return rows


def key_of(name, model, settings, seed, options):
    """Columns that identify a run."""
    told = {"rate": settings.rate, **settings.config}
    if settings.schedule != "cosine":  # older rows, which are all of this schedule, do not name it
        told["schedule"] = settings.schedule
    return {
        "data": label_of(name, options),
        "model": model,
        "seed": seed,
        "steps": options.max_steps,
        "config": json.dumps(told, sort_keys=True),
        "protocol": json.dumps(protocol(options)),
    }


def protocol(options):
    """Options, and digest of the encoder's weights, that change a score of a model."""
    found = {name: getattr(options, name) for name in PROTOCOL}
    if options.encoder:
        found["encoder"] = load_learner(options.encoder).card["sha256"][:12]
    if options.orders > 1:
        found["orders"] = options.orders
    return found


def label_of(name, options):
    """Name of the data in runs and searches; encoded data have another name."""
    return name if options.encoder is None else f"{name}, frozen encoder"


def search_file(name, model, options):
    label = label_of(name, options).replace(",", "").replace(" ", "_")
    return options.output / f"search_{label}_{model}.csv"


def found_settings(name, model, options):
    """Return the settings of the search's best trial."""
    file = search_file(name, model, options)
    if not file.exists():
        raise SystemExit(f"{file} is not there: run --search first.")
    best = pd.read_csv(file).nlargest(1, "value").to_dict("records")[0]
    config = {k: v for k, v in best.items() if k not in ("number", "value", "rate")}
    return MODELS[model]._replace(config=config, rate=best["rate"])


def score_weights(name, options):
    """Score given weights; return rows of weights.csv."""
    data, rows = DATA[name](options), []
    for weights in options.weights:
        learner = load_learner(weights).eval()
        if any(getattr(learner, key, None) != data.learner[key] for key in ("inputs", "n_inputs")):
            raise SystemExit(f"--weights: {weights} cannot read --data {name}.")
        for split in ("valid", "test"):
            mean, error = accuracy(learner, data, split, options.n_test, n_orders=options.orders)
            rows.append({"data": name, "weights": Path(weights).stem, "split": split})
            rows[-1] |= {"orders": options.orders, "accuracy": mean, "se": error}
            rows[-1] |= {"sha256": learner.card["sha256"][:12]}
            print(f"{name} {weights}, {split}: {mean:.4f} +- {error:.4f}")
    return rows


def folder_of(options, key):
    """Folder of a run's state."""
    words = [str(v) for v in key.values()]
    return options.cache / "".join(c if c.isalnum() else "_" for c in "-".join(words))


def train(learner, data, settings, seed, options, folder=None):
    return meta_train(
        learner,
        data.sources["train"],
        sampler(data.vectors),
        validation_source=data.sources["valid"],
        max_steps=options.max_steps,
        batch_size=options.batch_size,
        learning_rate=settings.rate,
        schedule=settings.schedule,
        weight_decay=1e-4,
        n_warmup=min(200, options.max_steps // 4),
        eval_every=max(options.max_steps // 10, 1),
        n_validation=4,
        n_pooled=2,
        n_groups=1,
        keep="last",
        checkpoint_dir=folder,
        random_state=seed,
        verbose=False,
    )


def search(name, data, options):
    """Bayesian search of each model's settings on "valid" (section 3.5), stored in a database."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    options.cache.mkdir(parents=True, exist_ok=True)
    for model in options.models:

        def objective(trial, known=MODELS[model]):
            config = {"width": trial.suggest_categorical("width", [16, 32, 64])}
            if known.backbone != "snail":
                config["n_layers"] = trial.suggest_categorical("n_layers", [1, 3, 6])
                config["dropout"] = trial.suggest_categorical("dropout", [0.0, 0.1, 0.3, 0.5])
            rate = trial.suggest_float("rate", 1e-4, 1e-2, log=True)
            learner = make_learner(data, known.backbone, config, 0)
            train(learner, data, known._replace(config=config, rate=rate), 0, options)
            return accuracy(learner, data, "valid", options.n_test, n_orders=options.orders)[0]

        study = optuna.create_study(
            study_name=f"{name}-{model}-{options.max_steps}-{json.dumps(protocol(options))}",
            storage=f"sqlite:///{options.cache / 'search.db'}",
            direction="maximize",
            load_if_exists=True,
        )
        # A resumed search needs another seed: with the same seed it would repeat the first trials.
        study.sampler = optuna.samplers.TPESampler(seed=len(study.trials))
        left = options.search - len(study.get_trials(states=[optuna.trial.TrialState.COMPLETE]))
        study.optimize(objective, n_trials=max(left, 0))
        print(f"{name} {model}: {study.best_params} valid {study.best_value:.4f}")
        frame = study.trials_dataframe(("number", "value", "params"))
        frame = frame.dropna(subset="value")  # an interrupted trial has no value
        frame = frame.rename(columns=lambda c: c.removeprefix("params_"))
        file = search_file(name, model, options)
        frame.to_csv(file, index=False, float_format="%.6g")
        report.parallel_coordinates(frame, file.with_suffix(".png"))


def write_coefficients(options):
    """Predict the coefficients of a function from a network's weights (the meta-network's task)."""
    X, y = {}, {}
    for i, (split, n) in enumerate(N_FUNCTIONS.items()):
        n = max(int(n * options.n_functions), 10)
        found = make_symbolic_regression(n, 20, random_state=i, data_home=options.cache)
        X[split], y[split] = found.regression.X, found.regression.y
    mean, scale = X["train"].mean(0), X["train"].std(0)
    models = {
        "RidgeCV": RidgeCV(),
        "RandomForestRegressor": RandomForestRegressor(100, min_samples_leaf=5, random_state=0),
        "MLPRegressor": MLPRegressor(
            hidden_layer_sizes=(256, 256), early_stopping=True, random_state=0
        ),
    }
    rows = []
    for name, model in models.items():
        model.fit((X["train"] - mean) / scale, y["train"])
        told = model.predict((X["test"] - mean) / scale)
        scores = r2_score(y["test"], told, multioutput="raw_values")
        rows.append({"model": name, **{f"R2 of p{i}": s for i, s in enumerate(scores)}})
    frame = pd.DataFrame(rows)
    print(frame.to_string(index=False, float_format="%.3f"))
    frame.to_csv(options.output / "coefficients.csv", index=False, float_format="%.4g")


if __name__ == "__main__":
    main()

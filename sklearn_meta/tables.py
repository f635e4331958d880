"""Base of the estimators of tables: the context, and the two modes of reading rows."""

from numbers import Integral

import numpy as np
import torch
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import _safe_indexing
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from .base import MetaEstimator
from .cells import in_numpy, in_pandas
from .chunks import are_without_label, batches_of, in_chunks, in_order, rows_read, same_of_equals
from .table_validation import (
    check_dense,
    check_observed,
    checked_cells,
    encode,
    encode_observed,
    validated_table,
    warn_of_strangers,
)
from .tasks import TableEncoder, collate, context_task, groups_of_like_size, stack_tables
from .user_warnings import warn

#: Maximum number of unlabelled rows of ``fit`` that are read.
MOST_UNLABELLED = 1000

#: Number of rows of ``fit`` above which a warning tells how much memory they take.
MANY_ROWS = 5000

#: The two results of a forward pass for each row.
EMBEDDINGS, OUTPUTS = range(2)


class TableEstimator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, MetaEstimator):
    """Base class of the estimators whose task is one table.

    Subclasses implement ``_context_labels``, the labels of the rows of ``fit``, and
    ``_small_labels``, the labels of a task of ``predict_batch``.
    """

    _parameter_constraints = {
        "backbone": "no_validation",
        "transductive": ["boolean"],
        "chunk_size": [Interval(Integral, 1, None, closed="left")],
        "device": [str],
        "dtype": [StrOptions({"float32", "float64", "bfloat16", "auto"})],
        "random_state": ["random_state"],
    }

    #: Attributes cached for the weights in use; recomputed when the weights change.
    _made_of_context = ("_context",)
    _fitted = ("X_", *_made_of_context)

    def __init__(
        self,
        backbone="default",
        *,
        head=None,
        transductive=True,
        chunk_size=1000,
        device="auto",
        dtype="float32",
        random_state=None,
    ):
        self.backbone = backbone
        self.head = head
        self.transductive = transductive
        self.chunk_size = chunk_size
        self.device = device
        self.dtype = dtype
        self.random_state = random_state

    def transform(self, X):
        """Embed rows: the z of section 3.3 of paper 000, from which the head predicts.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)

        Returns
        -------
        ndarray of shape (n_rows, n_embedding)
            ``n_embedding`` is the number of columns after one-hot encoding times the number of
            channels per column. With the default weights there are 17 channels for classification
            (8 of the prototypes' network, 9 of the Gaussian process's), 9 for regression and 8 for
            outliers; with more than ten classes, twice as many.

        Raises
        ------
        NotFittedError, ValueError, TypeError
            If ``fit`` was not called, or X has no rows, other columns than in ``fit`` or an
            infinite cell, or is sparse.
        """
        check_is_fitted(self)
        X = self._table(X)
        # Use the encoder of ``fit``, so that all rows get the same number of output features.
        return self._read_as_encoded(X, EMBEDDINGS).flatten(1).double().cpu().numpy()

    @property
    def _n_features_out(self):
        """Length of an embedding by the current weights, which may not be those of ``fit``."""
        n_label_columns = self._context_labels()[1]
        return self._learner().n_embedding(self.encoder_.n_columns_out_, n_label_columns)

    def __getstate__(self):
        """Leave out what can be recomputed: the encoded context is larger than the rows."""
        state = super().__getstate__()
        for name in self._made_of_context:
            state.pop(name, None)
        return state

    def __sklearn_is_fitted__(self):
        return hasattr(self, "X_")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags

    def _context_labels(self):
        """Labels of the rows of ``fit`` as a Task holds them, and the number of label columns."""
        raise NotImplementedError

    def _warn_of_many_rows(self):
        """Warn, at the start of ``fit``, if there are so many rows that memory may not suffice."""
        labels, n_label_columns = self._context_labels()
        n_unlabelled = are_without_label(labels).sum()
        most = self._most_unlabelled(labels, n_label_columns)
        if (n_rows := len(labels) - max(n_unlabelled - most, 0)) > MANY_ROWS:
            warn(
                f"{n_rows} rows of fit are read together: memory grows with their square and, "
                "with the default weights, time with their cube. 4000 labelled rows take 2 GiB "
                "(4 GiB for regression) and half a minute, 10000 some 10 GiB (20 GiB) and "
                "minutes. Fit on a sample, such as sklearn.utils.resample(X, y, replace=False, "
                "n_samples=2000), or use an estimator of scikit-learn, which is as accurate with "
                "that many rows.",
            )

    def _new_encoder(self):
        return TableEncoder(marks=True)

    def _store_context(self, X, *, categorical=()):
        """Finish ``fit``: store the rows, fit the encoder to their columns, return them encoded."""
        self._device()  # raises now rather than at the first prediction
        self.learner_ = self._learner()
        self.encoder_ = self._new_encoder().fit(X, categorical=categorical)
        encoded = encode_observed(self.encoder_, X)
        self.X_ = X.copy()
        labels, n_label_columns = self._context_labels()
        # Positions of the rows of ``fit`` that are read.
        self._rows = rows_read(labels, self._most_unlabelled(labels, n_label_columns), encoded)
        if not self.transductive:
            self._context_in_use(encoded)
        return encoded

    def _table(self, X):
        """Validate a table, which must have the columns of ``fit``."""
        X = validated_table(self, X, reset=False)
        warn_of_strangers(self.encoder_, X)
        return X

    def _most_unlabelled(self, y, n_label_columns):
        """Maximum number of unlabelled rows that are read of a context with these labels."""
        return MOST_UNLABELLED

    def _context_task(self, encoded):
        """Task of the context, made from the encoded rows of ``fit``."""
        labels, n_label_columns = self._context_labels()
        return context_task(encoded[self._rows], labels[self._rows], n_label_columns)

    def _read_context_rows(self, which):
        """Embeddings or outputs of all rows of ``fit``, including those not in the context."""
        others = np.setdiff1d(np.arange(len(self.X_)), self._rows)
        context = self._context_task(encode(self.encoder_, self.X_))
        found = self._forward([context])[which][0]
        if len(others):
            rest = self._read_as_encoded(_safe_indexing(self.X_, others), which)
            found = torch.cat([found, rest])
        return found[np.concatenate([self._rows, others]).argsort()]

    def _inputs(self, tasks):
        inputs, _ = collate(tasks, torch.float64)
        return {name: tensor.to(self._device()) for name, tensor in inputs.items()}

    @torch.inference_mode()
    def _forward(self, tasks):
        """Embeddings (B, N, M, H) and outputs (B, N, ...) of a padded batch of tasks."""
        with self._autocast():
            return self._module(self._learner()).embed_and_predict(**self._inputs(tasks))

    def _read(self, X):
        """Outputs of the rows of ``X``, in the mode that ``transductive`` selects."""
        check_is_fitted(self)
        X = self._table(X)
        if not self.transductive:
            return self._read_as_encoded(X, OUTPUTS)
        return self._read_together(X, self._encoder_with(X), OUTPUTS)

    def _read_as_encoded(self, X, which):
        """Embeddings or outputs of validated rows, encoded by the encoder of ``fit``."""
        if self.transductive:
            return self._read_together(X, self.encoder_, which)
        return self._read_rows(encode(self.encoder_, X), which)

    def _encoder_with(self, X):
        """Encoder for the context and ``X`` together."""
        return _encoder_of_both(self.encoder_, self.X_, X)

    def _read_together(self, X, encoder, which):
        """Transductive mode: the rows of a chunk and of the context attend to each other."""
        return self._read_behind(self._task_with(X, encoder), len(self._rows), which)

    def _read_behind(self, task, n_context, which):
        """Embeddings or outputs of the rows that follow the context in a task, chunk by chunk."""
        size = self._rows_together(task.y[:n_context], task.n_label_columns)
        chunks, places = in_chunks(task, n_context, size)
        parts = []
        for batch in batches_of(chunks, self._cells_at_once()):
            found = self._forward(batch)[which]
            # Clone: a view would keep the context's part of every chunk in memory.
            parts += [of[n_context : len(c.y)].clone() for of, c in zip(found, batch, strict=True)]
        found = in_order(parts, places)
        return found if len(parts) == 1 else same_of_equals(found, task.X[n_context:])

    def _rows_together(self, y, n_label_columns):
        """Maximum number of rows of ``predict`` per chunk, for a context with these labels."""
        return self.chunk_size

    def _task_with(self, X, encoder):
        """Task of the context, followed by the rows of ``X``."""
        context, rows = self._context_task(encode(encoder, self.X_)), encode(encoder, X)
        labels = _with_unlabelled(context.y, len(rows))
        return context_task(np.vstack([context.X, rows]), labels, context.n_label_columns)

    @torch.inference_mode()
    def _context_in_use(self, encoded=None):
        """Inductive mode: the encoded context, recomputed if the weights, device or dtype changed.

        ``encoded`` holds the encoded rows of ``fit``, if the caller has them.
        """
        module = self._module(self._learner())
        kept = vars(self).get("_context")
        if kept is None or kept[0] is not module or kept[1] != self.dtype:
            encoded = encode(self.encoder_, self.X_) if encoded is None else encoded
            inputs = self._inputs([self._context_task(encoded)])
            masks = {name: inputs[name] for name in ("columns", "classes")}
            with self._autocast():
                state = module.encode(inputs["x"], inputs["labels"], **masks)
            self._context = module, self.dtype, state, masks  # all that later rows need
        return self._context

    @torch.inference_mode()
    def _read_rows(self, encoded, which):
        """Inductive mode: embeddings or outputs of rows from the context alone, in chunks."""
        learner, _, state, masks = self._context_in_use()
        rows = torch.from_numpy(encoded).to(self._device())
        n_slices = learner.n_slices(rows.shape[1], masks["classes"].shape[1])
        most = self._cells_at_once() // n_slices
        size, parts = self._rows_together(*self._context_labels()), []
        for chunk in rows.split(min(int(size), max(int(most), 32))):
            with self._autocast():
                if which == EMBEDDINGS:
                    parts.append(learner.embed_from(state, chunk[None], **masks))
                else:
                    parts.append(learner.continue_from(state, chunk[None], **masks)[1])
        return torch.cat(parts, dim=1)[0]

    def _read_tasks(self, tasks):
        """Read many small tasks in a few forward passes.

        Parameters
        ----------
        tasks : iterable of (X_labelled, y_labelled, X_unlabelled)

        Returns
        -------
        list of (labels, output)
            The first item that ``_small_labels`` returned for the task, and the output for the
            rows of ``X_unlabelled``.
        """
        self._validate_params()
        read = []
        for position, triple in enumerate(tasks):
            try:
                if not isinstance(triple, tuple | list) or len(triple) != 3:
                    raise ValueError(
                        "give a list of triples (X_labelled, y_labelled, X_unlabelled), one per "
                        "task."
                    )
                triple = [in_numpy(part) for part in triple]
                labels, task = self._small_task(*triple)
            except (TypeError, ValueError) as error:
                raise ValueError(f"Task {position}: {error}") from error
            n_context = len(task.y) - len(triple[2])
            most = self._rows_together(task.y[:n_context], task.n_label_columns)
            read.append((labels, task, n_context, len(triple[2]) <= most))
        whole = iter(self._forward_each([task for _, task, _, fits in read if fits]))
        found = []
        for labels, task, n_context, fits in read:
            if fits:
                output = next(whole)[n_context:, : task.n_label_columns]
            else:  # in chunks, each with the context
                output = self._read_behind(task, n_context, OUTPUTS)
            found.append((labels, output))
        return found

    def _cells_at_once(self):
        """Bound on the cells of a forward pass: a CPU's cache must hold them, a GPU be filled."""
        return 8e3 if self._device() == "cpu" else 2e5

    def _forward_each(self, tasks):
        """Outputs of all rows of each task, computed in a few forward passes."""
        outputs = [None] * len(tasks)
        for group in groups_of_like_size(tasks, self._cells_at_once()):
            _, padded = self._forward([tasks[i] for i in group])
            for i, output in zip(group, padded, strict=True):
                outputs[i] = output[: len(tasks[i].y)]
        return outputs

    def _small_task(self, X_labelled, y_labelled, X_unlabelled):
        X_labelled, X_unlabelled = in_pandas(X_labelled), in_pandas(X_unlabelled)
        shapes = [np.shape(X) for X in (X_labelled, X_unlabelled)]
        if any(len(shape) != 2 for shape in shapes) or shapes[0][1] != shapes[1][1]:
            raise ValueError(
                "X_labelled and X_unlabelled must be tables of the same columns, got shapes "
                f"{shapes[0]} and {shapes[1]}."
            )
        names = [list(getattr(X, "columns", ())) for X in (X_labelled, X_unlabelled)]
        if all(names) and names[0] != names[1] and all(isinstance(n, str) for n in sum(names, [])):
            raise ValueError("X_unlabelled needs the column names of X_labelled, in their order.")
        tables = [checked_cells(X) for X in (X_labelled, X_unlabelled)]
        encoder = of_context = self._new_encoder().fit(tables[0])
        warn_of_strangers(encoder, tables[1])
        if self.transductive:
            encoder = _encoder_of_both(encoder, *tables)
        X = check_observed(np.vstack([encode(encoder, table) for table in tables]))
        check_dense(y_labelled)
        if np.ndim(y_labelled) == 0 or len(y_labelled) != len(X_labelled):
            n_labels = np.size(y_labelled) if np.ndim(y_labelled) else 0
            raise ValueError(f"{len(X_labelled)} labelled rows, but {n_labels} labels.")
        labels, y, n_label_columns = self._small_labels(y_labelled)
        if len(y) > (most := self._most_unlabelled(y, n_label_columns)):
            read = rows_read(y, most, encode(of_context, tables[0]))
            X, y = np.vstack([X[read], X[len(y) :]]), y[read]
        task = context_task(X, _with_unlabelled(y, len(X) - len(y)), n_label_columns)
        if not self.transductive:
            task = task._replace(context=np.arange(len(X)) < len(y))
        return labels, task


def _encoder_of_both(encoder, context, X):
    """Encoder for a context and other rows, with columns for the categories of both.

    Parameters
    ----------
    encoder : TableEncoder
        Encoder of the context; it decides which columns are categorical.
    context, X : ndarrays or DataFrames of shape (n_rows, n_columns)
        The rows of the context, and the other rows.
    """
    known = {*encoder.categorical_, *encoder.unseen_}
    if not known:
        return encoder
    kinds = {"categorical": encoder.categorical_, "numerals": encoder.numerals_}
    both = TableEncoder().fit(stack_tables(context, X), **kinds)
    if set(both.categorical_) - known:
        encoder.transform(X)  # raises and names the column that was numeric in fit
    both.marks_ = encoder.marks_
    return both


def _with_unlabelled(y, n_rows):
    """Append the marks of ``n_rows`` unlabelled rows to labels."""
    nothing = np.nan if y.dtype.kind == "f" else -1
    return np.concatenate([y, np.full((n_rows, *y.shape[1:]), nothing, y.dtype)])

"""Linear models of few rows with many columns, fitted in as many dimensions as there are rows.

With a penalty on their length, the coefficients of a model are a linear combination of the rows
(G. Wahba's representer theorem, 1990). So nothing is lost if rows are rotated into the space that
they span. L-BFGS takes the same steps there, too.
"""

import numpy as np

#: Maximum number of rows for which this is faster, overall and per label: the time for the axes is
#: cubic in the number of rows.
MOST_ROWS, A_LABEL = 2000, 350


def rotated(X):
    """Rotate rows into the space that they span.

    Parameters
    ----------
    X : sparse matrix or sparse array of shape (n_rows, n_columns)

    Returns
    -------
    rows : ndarray of shape (n_rows, n_dimensions)
    axes : ndarray of shape (n_dimensions, n_rows)
        ``axes @ X`` are the dimensions as unit vectors among the columns.
    """
    values, vectors = np.linalg.eigh((X @ X.T).toarray())
    seen = values > values[-1] * 1e-12  # the others are rounding, for example of equal rows
    seen[-1] = True  # keep one dimension even if all rows are zero
    lengths = np.sqrt(values[seen].clip(np.finfo(float).tiny))
    return vectors[:, seen] * lengths, (vectors[:, seen] / lengths).T


def fit_linear(model, X, y):
    """Fit a logistic regression, in the space that the rows span if that is faster.

    It is faster with three labels or more, where each label has a coefficient for every column.

    Parameters
    ----------
    model : LogisticRegression
    X : sparse matrix or sparse array of shape (n_rows, n_columns)
    y : array of shape (n_rows,)

    Returns
    -------
    LogisticRegression
        The fitted model, for rows with the columns of ``X``.
    """
    n_labels = len(np.unique(y))
    if n_labels < 3 or len(y) > min(MOST_ROWS, A_LABEL * n_labels):
        return model.fit(X, y)
    rows, axes = rotated(X)
    model.fit(rows, y)
    model.coef_ = model.coef_ @ axes @ X
    model.n_features_in_ = X.shape[1]
    return model

"""Linear models of few rows of many columns, in as many dimensions as there are rows.

A model with a penalty on the length of its coefficients has them among the sums of the rows, so
nothing is lost where rows are turned into the space that these span: G. Wahba's representer theorem
(1990). L-BFGS takes the same steps there, too.
"""

import numpy as np

#: Rows at most for which it is worth while, and for each label: axes take the cube of their number.
MOST_ROWS, A_LABEL = 2000, 350


def rotated(X):
    """Rows in the space that they span.

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
    seen = values > values[-1] * 1e-12  # of equal rows the others are rounding
    seen[-1] = True  # of rows that are all zero, too
    lengths = np.sqrt(values[seen].clip(np.finfo(float).tiny))
    return vectors[:, seen] * lengths, (vectors[:, seen] / lengths).T


def fit_linear(model, X, y):
    """Fit a logistic regression, where that is faster in the space that rows span.

    That is with three labels or more, whose coefficients would be as many times the columns.

    Parameters
    ----------
    model : LogisticRegression
    X : sparse matrix or sparse array of shape (n_rows, n_columns)
    y : array of shape (n_rows,)

    Returns
    -------
    LogisticRegression
        The model, fitted: it reads rows as ``X`` has them.
    """
    n_labels = len(np.unique(y))
    if n_labels < 3 or len(y) > min(MOST_ROWS, A_LABEL * n_labels):
        return model.fit(X, y)
    rows, axes = rotated(X)
    model.fit(rows, y)
    model.coef_ = model.coef_ @ axes @ X
    model.n_features_in_ = X.shape[1]
    return model

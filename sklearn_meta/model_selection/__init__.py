"""Fair cross-validation when some labels are missing: ``y == -1`` (or NaN) means "no label".

scikit-learn's splitters stratify ``-1`` as if it were a class and put such rows into test folds,
where no prediction can be right. :class:`SemiSupervisedSplit`, :class:`SemiSupervisedKFold` and
:class:`FewShotSplit` do not. :class:`Transductive` gives a semi-supervised estimator the rows of
``predict`` as its unlabelled data, so that inductive and transductive methods stand side by side in
one ``cross_val_score``.
"""

from .splitters import FewShotSplit, SemiSupervisedKFold, SemiSupervisedSplit
from .transductive import Transductive

__all__ = ["FewShotSplit", "SemiSupervisedKFold", "SemiSupervisedSplit", "Transductive"]

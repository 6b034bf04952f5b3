"""TreeEnsemble: what the backend tests do not try."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np

from burnx import ops


def test_probit_is_the_quantile_of_the_normal_distribution() -> None:
    """One tree whose two leaves are 0.2 and 0.975; float64 shows the digits."""
    x = np.array([[0.0], [1.0]])
    found = ops.tree_ensemble(
        x,
        nodes_splits=np.array([0.5]),
        nodes_featureids=[0],
        nodes_modes=np.array([0], np.uint8),
        nodes_truenodeids=[0],
        nodes_falsenodeids=[1],
        nodes_trueleafs=[1],
        nodes_falseleafs=[1],
        leaf_targetids=[0, 0],
        leaf_weights=np.array([0.2, 0.975]),
        tree_roots=[0],
        post_transform=4,
    ).numpy()
    wanted = [[NormalDist().inv_cdf(0.2)], [NormalDist().inv_cdf(0.975)]]
    np.testing.assert_allclose(found, wanted, rtol=1e-12)

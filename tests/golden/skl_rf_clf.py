"""skl_rf_clf: 39.5 k parameters, from skl_rf_clf.onnx (opset 18, written by skl2onnx 1.20.0).

Inputs:  X (?, 10)
Outputs: label (?) int64; probabilities (?, 3)
"""

from burnx import Input, Output, Tensor, nn, ops

WEIGHTS = "skl_rf_clf.safetensors"


class Model(nn.Module):
    inputs = (Input("X", "float32", (None, 10)),)
    outputs = (Output("label", "int64", (None,)), Output("probabilities", "float32", (None, 3)))

    def __init__(self):
        self.tree_ensemble_classifier = nn.Container(
            class_ids=nn.Parameter(3990, dtype="int64"),
            class_nodeids=nn.Parameter(3990, dtype="int64"),
            class_treeids=nn.Parameter(3990, dtype="int64"),
            class_weights=nn.Parameter(3990),
            nodes_falsenodeids=nn.Parameter(2620, dtype="int64"),
            nodes_featureids=nn.Parameter(2620, dtype="int64"),
            nodes_hitrates=nn.Parameter(2620),
            nodes_missing_value_tracks_true=nn.Parameter(2620, dtype="int64"),
            nodes_modes=nn.Parameter(2620, dtype="string"),
            nodes_nodeids=nn.Parameter(2620, dtype="int64"),
            nodes_treeids=nn.Parameter(2620, dtype="int64"),
            nodes_truenodeids=nn.Parameter(2620, dtype="int64"),
            nodes_values=nn.Parameter(2620),
        )

    def forward(self, X: Tensor) -> tuple[Tensor, Tensor]:
        return ops.tree_ensemble_classifier(
            X,
            class_ids=self.tree_ensemble_classifier.class_ids,
            class_nodeids=self.tree_ensemble_classifier.class_nodeids,
            class_treeids=self.tree_ensemble_classifier.class_treeids,
            class_weights=self.tree_ensemble_classifier.class_weights,
            classlabels_int64s=[0, 1, 2],
            nodes_falsenodeids=self.tree_ensemble_classifier.nodes_falsenodeids,
            nodes_featureids=self.tree_ensemble_classifier.nodes_featureids,
            nodes_hitrates=self.tree_ensemble_classifier.nodes_hitrates,
            nodes_missing_value_tracks_true=self.tree_ensemble_classifier.nodes_missing_value_tracks_true,
            nodes_modes=self.tree_ensemble_classifier.nodes_modes,
            nodes_nodeids=self.tree_ensemble_classifier.nodes_nodeids,
            nodes_treeids=self.tree_ensemble_classifier.nodes_treeids,
            nodes_truenodeids=self.tree_ensemble_classifier.nodes_truenodeids,
            nodes_values=self.tree_ensemble_classifier.nodes_values,
        )  # (?) int64, (?, 3)

"""Train the model that ``burnx demo`` shows, and write it with a few digits to try it on.

    python tools/make_demo.py

Needs: torch 2.13, scikit-learn 1.9, onnx 1.23 and onnxscript, in an environment of their own:
nothing in burnx needs them.  One thread and one seed, so the same files come out on the same
versions.  Writes burnx/demo/digits.onnx and burnx/demo/digits_samples.npz.

The data are the 1,797 hand-written 8x8 digits that scikit-learn carries (UCI, public), a quarter
of them kept aside for the test; the samples are 64 of that quarter.
"""

import io
from pathlib import Path

import numpy as np
import onnx
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

FOLDER = Path(__file__).resolve().parent.parent / "burnx" / "demo"
SEED, EPOCHS, BATCH, SAMPLES = 7, 40, 64, 64
MAX_BYTES = 300_000


class Block(nn.Module):
    """Convolution, activation, then half the size."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, 3, padding=1)
        self.pool = nn.MaxPool2d(2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.pool(torch.relu(self.conv(x)))


class Digits(nn.Module):
    """Two blocks and a classifier: (batch, 1, 8, 8) -> (batch, 10)."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.ModuleList([Block(1, 16), Block(16, 32)])
        self.hidden = nn.Linear(32 * 2 * 2, 64)
        self.classifier = nn.Linear(64, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = images
        for block in self.features:
            x = block(x)
        x = torch.relu(self.hidden(torch.flatten(x, 1)))
        return self.classifier(x)


def load_data() -> list[torch.Tensor]:
    """Training images, test images, training labels, test labels."""
    digits = load_digits()
    images = (digits.images / 16.0).astype(np.float32)[:, None]
    parts = train_test_split(
        images, digits.target, test_size=0.25, random_state=SEED, stratify=digits.target
    )
    return [torch.from_numpy(np.ascontiguousarray(part)) for part in parts]


def train(network: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> None:
    adam = torch.optim.AdamW(network.parameters(), lr=3e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(adam, EPOCHS)
    network.train()
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(images)).split(BATCH):
            adam.zero_grad()
            loss = nn.functional.cross_entropy(network(images[batch]), labels[batch])
            loss.backward()
            adam.step()
        schedule.step()
    network.eval()


def export(network: nn.Module) -> onnx.ModelProto:
    """The network as PyTorch's exporter writes it, without the paths of this machine."""
    program = torch.onnx.export(
        network,
        (torch.zeros(2, 1, 8, 8),),
        dynamo=True,
        verbose=False,
        input_names=["images"],
        output_names=["logits"],
        dynamic_shapes={"images": {0: torch.export.Dim("batch")}},
        opset_version=20,
    )
    stream = io.BytesIO()
    program.save(stream)
    model = onnx.load_model_from_string(stream.getvalue())
    for node in model.graph.node:
        kept = [entry for entry in node.metadata_props if not entry.key.endswith("stack_trace")]
        del node.metadata_props[:]
        node.metadata_props.extend(kept)
    onnx.checker.check_model(model, full_check=True)
    return model


def main() -> None:
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    train_images, test_images, train_labels, test_labels = load_data()
    network = Digits()
    train(network, train_images, train_labels)
    with torch.no_grad():
        right = (network(test_images).argmax(1) == test_labels).float().mean().item()
    data = export(network).SerializeToString()
    if len(data) > MAX_BYTES:
        raise SystemExit(f"the demo model has {len(data)} bytes, more than {MAX_BYTES}")
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / "digits.onnx").write_bytes(data)
    np.savez_compressed(
        FOLDER / "digits_samples.npz",
        images=test_images[:SAMPLES].numpy(),
        labels=test_labels[:SAMPLES].numpy(),
    )
    print(f"{right:.1%} of {len(test_labels)} test digits right, {len(data)} bytes")


if __name__ == "__main__":
    main()

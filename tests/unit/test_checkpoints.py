"""Checkpoints as source: every family answers as PyTorch's model does; what is not known is said, and nothing is run."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from click.testing import CliRunner

import burnx
from burnx.architectures.family import families
from burnx.cli.app import main
from burnx.errors import ModelError, UnsupportedError, UsageError, WeightsError
from burnx.weights import open_weights, save_weights

FOLDER = Path(__file__).parent.parent / "checkpoints"
sys.path.insert(0, str(FOLDER))
from tiny import CASES, Case, fill, make_inputs, read_reference  # noqa: E402

sys.path.remove(str(FOLDER))

"""burnx: ONNX in, readable Python in between, ONNX out."""

__version__ = "0.1.0"

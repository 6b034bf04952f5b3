"""Generated cases: a small model for every operator, version and dtype of the schemas.

Enters: the schemas of onnx, and onnxruntime's for operators that onnx does not define.  Leaves: tests as ``BackendTest``.
What an operator needs (shapes, values, attributes) is a recipe, which is data; the loops over versions and dtypes are
in ``collect.py``, where to start reading.  ``expected.py`` asks the other engines, ``disagreements.py`` says whom to
believe where they differ.
"""

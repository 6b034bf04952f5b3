"""What ``burnx demo`` shows: a small trained model and digits to try it on; data only.

Enters: nothing.  Leaves: ``digits.onnx``, and ``digits_samples.npz`` with ``images``
(64, 1, 8, 8) float32 and ``labels`` (64) int64.
May import: nothing.
Start reading: ``tools/make_demo.py``, which trained and wrote both.
"""

"""Checked agreement with the ONNX standard.

In: the backend tests of the installed ``onnx`` package, and models to verify.
Out: statuses by test and route, and reports of them as JSON, Markdown and HTML.
May import: the public api, the operators' limitations, errors; also onnx and onnxruntime.
Start at ``suite.run_conformance``.
"""

"""What devices with a driver share: from segments to launches, memory and plans; ``opencl`` and ``cuda`` add their drivers.

Enters: a Program and arrays.  Leaves: arrays, on the host or on the device.  May import: gpu, fusion, runtime.compiled and below;
no driver.  Start reading at ``runner.py``.
"""

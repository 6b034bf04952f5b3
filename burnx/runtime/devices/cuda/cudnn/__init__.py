"""Convolutions and attentions by cuDNN, through NVIDIA's cudnn-frontend.

Enters: what is asked for, and buffers.  Leaves: launches; plans are kept.
May import: the gpu devices' rooms.  Start at ``plans``.

Source: NVIDIA cuDNN 9, "Graph API"; cudnn-frontend 1.32, its Python package.
"""

from burnx.runtime.devices.cuda.cudnn.attention import bind_attention as bind_attention
from burnx.runtime.devices.cuda.cudnn.convolution import bind_convolution as bind_convolution
from burnx.runtime.devices.cuda.cudnn.plans import NAME as NAME
from burnx.runtime.devices.cuda.cudnn.plans import Site as Site
from burnx.runtime.devices.cuda.cudnn.plans import find_library as find_library

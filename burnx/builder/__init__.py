"""Builder: the bodies of operators run on abstract values, and the primitives they call written into a Program.

Enters: graphs, operators, types.  Leaves: Programs, and on the way the types of every value.
May import: tensor, primitives, graph, program and below.
Start reading at ``builder.py``; ``writer.py`` holds what has nothing to do with graphs.
"""

from burnx.builder.builder import Builder
from burnx.builder.clean import remove_dead
from burnx.builder.joining import closed, join_types
from burnx.builder.writer import Operators, flat_tensors

__all__ = ["Builder", "Operators", "closed", "flat_tensors", "join_types", "remove_dead"]

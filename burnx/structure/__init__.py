"""Structure: how a graph is made up of modules, before a word of source is written.

Enters: a Graph, after the passes, and what exporters left in names and metadata.  Leaves: a tree of calls of
operators, layers and modules (``tree.py``), and what in it is a list, a run of calls, or a loop that is a statement.
May import: ops, graph, types and below, and networkx; it writes no Python and makes no name legal.
Start reading at ``tree.py``; ``scopes.py`` says which module a node is of, ``layers.py`` which nodes are layers.
"""

"""``Contract`` statements as LLVM IR: matrix products and convolutions.  Starts at ``contract``."""

"""Values and pure rules: no I/O, no clock and no randomness of its own."""

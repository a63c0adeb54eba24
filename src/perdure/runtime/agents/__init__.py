"""A small agent loop: a model, its tools, and a conversation that goes on after a crash."""

"""Other libraries, each a child process in an environment of its own that answers one-line commands."""

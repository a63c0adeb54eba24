"""The storage that people can read: one folder, one log of JSON lines per thread."""

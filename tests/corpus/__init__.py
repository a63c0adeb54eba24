"""Logs written by every released version, kept as data and replayed by every later one."""

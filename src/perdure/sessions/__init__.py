"""Threads and their messages."""

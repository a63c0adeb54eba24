"""The terminal face: `perdure …`, with the extra `cli`."""

"""flowagent's words over the same engine: agents that are saved and restored whole. `perdure` exports them."""

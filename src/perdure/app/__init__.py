"""Settings and wiring: the one place where concrete parts are chosen and joined."""

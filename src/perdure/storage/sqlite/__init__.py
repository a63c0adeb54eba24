"""SQLite: one file, several processes, durable at every acknowledgement."""

"""Any storage with a queue in front of it: a write is answered at once and made durable a moment later."""

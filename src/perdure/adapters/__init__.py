"""Frameworks and SDKs of others, made durable. Each needs its own extra."""

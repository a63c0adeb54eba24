"""PostgreSQL: the engine when one machine is not enough."""

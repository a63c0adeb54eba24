"""Where bytes live: the contract and its backends."""

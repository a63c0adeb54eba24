"""Saving, loading, listing, comparing and forking states."""

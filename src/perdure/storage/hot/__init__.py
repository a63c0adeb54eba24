"""Redis in front of a storage: read faster, never believed more than the storage itself."""

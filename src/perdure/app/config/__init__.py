"""Settings in files: read with their places, checked, and made into what a store is opened with."""

"""Traces that are larger than memory: read, checked and compared a chunk at a time."""

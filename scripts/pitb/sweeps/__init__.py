"""Sweeps: thousands of runs from one short file, trained in batches and read as one dataset."""

"""Bundles: results with all that they came from in one zip, and checking what others have sent."""

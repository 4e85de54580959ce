"""The reference side: every optimizer, clip and problem in NumPy, each choice of equation named."""

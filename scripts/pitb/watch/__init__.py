"""The same experiments on other versions of burn and of PyTorch: what a release changed."""

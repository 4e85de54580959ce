"""PyTorch into burn: the same training on both sides, compared step by step."""

__version__ = "0.1.0"

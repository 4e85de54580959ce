"""burn's configurations in Rust, and what they leave at defaults that PyTorch has otherwise.

`sources` finds the configurations, `rules` says what they leave unstated, `report` prints it.
"""

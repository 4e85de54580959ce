"""PyTorch's calls as burn's Rust, and burn's configurations as PyTorch's calls.

`source` reads Python and never runs it, `values` computes what does not depend on a run, `calls`
finds the calls, `translate` and `schedules` say them in burn's words, `emit` writes the Rust;
`reverse` goes the other way, and `verify` trains both sides.
"""

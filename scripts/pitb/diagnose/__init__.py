"""What an optimizer of unknown configuration really does, found from a trace of its steps."""

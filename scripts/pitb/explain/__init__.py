"""Which difference between two trainings costs what: the package of ``pitb explain``."""

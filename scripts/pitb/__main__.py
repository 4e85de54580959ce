"""``python -m pitb`` is ``pitb``."""

from pitb.cli import main

if __name__ == "__main__":
    main()

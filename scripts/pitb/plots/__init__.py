"""Pictures: of a comparison, of what remains when defaults are aligned, of coverage and mutants.

Each is one SVG, the same to the byte for the same numbers. Text is drawn as outlines, so that no
reader's fonts move or cut it.
"""

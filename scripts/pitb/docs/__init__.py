"""Marks in Markdown documents, filled with tables and figures of the results, and checked.

``document`` reads and replaces a file to the byte, ``grammar`` finds the marks, ``source`` and
``figures`` know what they can name, ``content`` says what stands in for one and whether what is
printed is still that, ``fill`` brings it together. The project's own documents use the same
engine with further names: ``own`` and the modules beside it.
"""

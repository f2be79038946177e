"""The native libraries: their operators, what these keep, what is kept on disk."""

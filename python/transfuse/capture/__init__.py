"""A module's forward becomes a graph, with all that decides whether it holds."""

"""What of a graph is ours where Inductor compiles the rest."""

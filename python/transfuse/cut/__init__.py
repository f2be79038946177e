"""A graph is cut into regions and what stays PyTorch's."""

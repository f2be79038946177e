"""PyTorch as it is: its private names, the versions that were tested, runs of a model that are not the model's own."""

"""A region runs: ours or PyTorch's, in PyTorch's precision, within its memory."""

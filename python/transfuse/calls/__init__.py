"""Which graph runs a call of an optimised module, and what is remembered for the next."""

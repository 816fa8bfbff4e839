"""Observe: what is told of the work, to people and machines. Values in, sentences and numbers out."""

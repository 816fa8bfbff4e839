"""Run: a claimed job's handler, called on the loop, in a thread or in a process, until it has an outcome."""

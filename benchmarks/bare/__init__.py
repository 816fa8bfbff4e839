"""The limits: the same rows and the same life of a job, with nothing but a driver and plain SQL."""

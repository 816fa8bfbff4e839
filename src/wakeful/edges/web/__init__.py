"""For web processes: an endpoint that runs what is due, and a worker that lives as long as the server."""

"""Where wakeful meets the world: command line, frameworks, test suites."""

"""The command line: a file a command, each imported only when it is called."""

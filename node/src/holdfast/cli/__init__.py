"""The command line: `holdfast <command>`. Commands read, call the layers below, and print."""

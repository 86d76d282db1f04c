"""One file per subcommand: options in, exit code out.

A command reads its options, calls a room that does the work, and hands the result to a report. It
decides nothing itself, and no other room imports it.
"""

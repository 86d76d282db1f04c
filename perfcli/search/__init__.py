"""Which options are to blame, or worth turning on: delta debugging.

Takes a list of changes; gives questions ("is this set bad?"), and from their answers the culprits
or the best set. Pure: it compiles and measures nothing, the caller answers.
"""

"""Searches for the options that are to blame, by delta debugging. Pure; the test is passed in.

Takes a list of changes; gives questions ("is this set bad?"), and from their answers the culprits
or the best set. Pure: it compiles and measures nothing, the caller answers.
"""

"""``init-ci``: the gate's configuration, and the files that a CI service needs.

Takes a repository's root; gives files, from the templates in ``data/ci``. It never changes what
somebody has configured, and never runs the repository's code.
"""

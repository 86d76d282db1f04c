"""``bisect-config``: which options are to blame, or worth turning on.

Takes a good and a bad side, or a catalogue, and a metric; gives a ``Bisection``, its report and its
file. It compiles and measures variants; which one to ask about next is decided in ``search/``.
"""

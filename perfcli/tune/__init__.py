"""``tune``: the options that make a model fastest on a target, with or without a device.

Takes a question and what may be changed; gives a ``Tuned``, its report and a file of options. It
drives the search of ``bisect/`` by the surest gain, and never recommends what is not surely faster.
"""

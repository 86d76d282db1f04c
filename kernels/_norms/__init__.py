"""Computes norms over rows, RMS norm and layer norm, for the families ``rmsnorm`` and
``layernorm``, which say what is checked, timed and allowed.

Both are one set of kernels: layer norm subtracts a mean and adds a bias, which is a constant,
``MEAN``, of every kernel that it has. Takes a problem and a target and gives a plan of launches,
without torch (``plan``); ``code`` runs it.
"""

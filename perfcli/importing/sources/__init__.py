"""Reads what torch.compile leaves behind: Inductor's generated modules, its debug folders, logs and
caches.

Takes paths; gives a run whose kernels were compiled again from their sources. Nothing that it reads
is executed before its syntax tree was checked, and no pickle is ever loaded.
"""

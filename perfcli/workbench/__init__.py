"""``perfcli kernels``: hand-written kernels listed, compiled, checked, timed and probed.

Takes a family, problems and targets; gives tables, charts and JSON, or a run that ``compare`` shows
beside Inductor's. torch is imported by its workers only.
"""

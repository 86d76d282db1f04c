"""Makes the constants of a GPU: what ``perfcli calibrate`` does, beside its options.

It takes a machine with a GPU, has a worker time generated kernels on it, fits the constants of
``predict/`` to these times, and writes a calibration file. It also says how good estimates are for
a run that was measured. It estimates nothing itself.
"""

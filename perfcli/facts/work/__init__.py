"""The work of one launch: what a kernel's index arithmetic and machine code ask of a device.

Takes TTGIR and SASS of one launch configuration with the launch's sizes and grid, gives counts
(``model.KernelWork``). It knows no device's speed; seconds are made of it in ``predict/``.
"""

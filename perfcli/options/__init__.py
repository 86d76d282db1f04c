"""Reads Inductor's options: those of an installed torch, as users write them, over releases.

Takes texts such as ``online_softmax=false`` and an interpreter; gives checked values. torch is
never imported: its configuration files are read and evaluated.
"""

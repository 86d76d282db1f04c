"""Describes what perfcli runs on: interpreters, devices, the environment, noise floors.

Takes a path, a device's name or nothing; gives descriptions. Other interpreters are asked in a
process of their own, and the driver through ctypes: torch is never imported.
"""

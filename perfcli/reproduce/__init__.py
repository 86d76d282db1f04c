"""``reproduce``: the published claims that perfcli was built for, carried out and judged.

Takes the names of claims, a target or a device, and an interpreter; gives a verdict on each claim,
with the numbers that it follows from. A claim is data (``claims/``): what is compiled in two ways,
what its author says of the difference, and the conditions under which it counts as shown. No
verdict is typed in; ``verdict`` derives it from facts, estimates and times.
"""

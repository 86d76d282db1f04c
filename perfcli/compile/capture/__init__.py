"""Takes kernels, launches and graphs out of Inductor while it generates code.

Takes a model that is being compiled; gives ``KernelFacts`` and what a step launches. The hooks look
on: they never change what Inductor generates.
"""

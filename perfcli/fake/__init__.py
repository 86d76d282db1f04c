"""Makes everything up instead of running it, so that the command line is tested without torch.

Takes the same requests as ``worker/``; gives deterministic runs and measurements. No process is
started and no time passes. Only ``--fake`` and ``PERFCLI_FAKE`` lead here.
"""

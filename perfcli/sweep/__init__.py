"""Compiles many variants of scenarios and puts them side by side.

Takes lists of scenarios, parameters, options, targets and interpreters, typed or from a TOML file;
gives a ``Sweep``, and shows it. It keeps no file of its own: what is finished are stored runs and
measurements. It never compiles or measures by itself: ``workflow/obtain.py`` does, on whichever
executor was asked for, and ``workflow/bench.py``.
"""

"""Stands in for the other ranks of a distributed model: one rank is compiled, and the process
group that it asks for communicates with nobody."""

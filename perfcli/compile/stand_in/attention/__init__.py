"""Answers which attention backend the target would take.

Takes a call of ``scaled_dot_product_attention`` and a ``Target``; gives the backend that torch
would choose there, by the rules of torch 2.11 to 2.15. No attention is computed.
"""

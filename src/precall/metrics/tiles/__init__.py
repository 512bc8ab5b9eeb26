"""Squared distances of many pairs with bounds of their errors, on the CPU and on CUDA.

What is counted does not belong here.
"""

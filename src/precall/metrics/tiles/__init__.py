"""Squared distances of many pairs with bounds of their errors. What is counted does not belong here."""

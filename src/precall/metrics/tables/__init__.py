"""What is special about tables: categories of both sides together, drift of columns, notices.

Reading tables is not done here.
"""

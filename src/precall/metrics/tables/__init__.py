"""What is special about tables: categories of both sides, drift of columns. Reading tables is not done here."""

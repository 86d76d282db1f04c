"""Takes what commands and the library show, gives it as tables with typed columns: pandas frames,
CSV, Parquet.

Never computes: a column reads what its row has. pandas is imported where a frame is made.
"""

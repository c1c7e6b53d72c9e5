"""Results of benchmarks: their kinds, tables, files and charts."""

"""The benchmarks: every bar of the design, measured as a ratio inside one run.

python -m benchmarks [--quick] [--only PART]
python -m benchmarks profile save|update|restore
"""

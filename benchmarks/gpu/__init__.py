"""Benchmarks on a GPU: CUDA graphs of calls, timed by the GPU's own clock, contenders in turns."""

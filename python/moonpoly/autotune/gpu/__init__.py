"""The offline stage for GPUs: the steps for a CPU, where a launch takes the place of a call.

In the order of the data: ``program`` (decisions to a tile program), ``compile`` (tile programs to
machine code), ``launch`` (one product by one kernel), ``measure`` (in a process of its own),
``search`` (MetaSchedule), ``sample`` and ``cost_model`` (costs of launches), ``rank`` (a
shortlist), ``shapes``, ``record`` and ``recording`` (what launches of an artifact take), ``choice``
and ``contest`` (which to keep), ``refit`` and ``correction`` (costs by what was recorded), ``tune``
and ``calibrate`` (all of it), ``export`` (records to artifact).
"""

"""The Transformer of Vaswani et al. (2017), written by hand, and what trains and decodes it.

Nothing here knows a task or a text. Shapes are written with one letter for each axis:

    S  source length          B  batch            V  vocabulary
    T  target length          D  model (d_model)  F  feed-forward
    H  heads                  K  head (D / H)

Everything is sequence-first: token ids are ``[S, B]``, states ``[S, B, D]``, logits ``[T, B, V]``.
A boolean mask is True where attention is blocked. A float mask is added to the scores.

Reading order:

1. The model (``core.model``): ``masks``, ``attention``, ``dropout``, ``transformer``,
   ``embedding``, ``sequence_to_sequence``; then ``rotary``, other positions than the paper's.
   ``examples/copy_task.py`` trains it in 120 lines.
2. Greedy search: ``decoding.search``, ``decoding.greedy_search``, and the model that it calls step
   by step: ``inference.incremental_model``, ``inference.packed_transformer``,
   ``inference.key_value_cache``, ``inference.packed_linear``. Then ``decoding.beam_search``.
3. Training: ``training.loss``, ``training.schedule``, ``training.fit``, ``training.step``,
   ``training.gradient``, ``training.state``, ``storage.checkpoint``.

The other modules can be read in any order.
"""

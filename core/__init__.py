"""The Transformer of Vaswani et al. (2017), by hand, and machinery that knows no task and no text.

Shapes are written with one letter an axis, the same everywhere in this project:

    S  source length          B  batch            V  vocabulary
    T  target length          D  model (d_model)  F  feed-forward
    H  heads                  K  head (D / H)

Everything is sequence-first: token ids are ``[S, B]``, states ``[S, B, D]``, logits ``[T, B, V]``.
A boolean mask is True where attention is *blocked*; a float mask is added to the scores.

Reading order: ``masks`` -> ``attention`` -> ``transformer`` -> ``embedding`` ->
``sequence_to_sequence`` -> ``search`` -> ``greedy_search`` -> ``beam_search`` -> ``decoding``, the
door to these and all other searches -> ``schedule`` -> ``loss`` -> ``training`` -> ``run`` ->
``checkpoint``.
"""

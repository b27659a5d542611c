"""The Transformer, in the order of the paper's section 3.

Reading order: ``masks``, ``attention``, ``dropout``, ``transformer``, ``embedding``,
``sequence_to_sequence``. ``rotary`` is an alternative to section 3.5.
"""

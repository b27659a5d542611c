"""The Transformer, in the order of the paper's section 3.

Reading order: ``masks``, ``attention``, ``dropout``, ``transformer``, ``embedding``,
``sequence_to_sequence``. ``positions`` are alternatives to section 3.5.
"""

"""What ``make docs`` adds to the pages of the guide: source code, the reference, and equations.

``hooks`` connects these modules to MkDocs. A page contains directives, one a line:

    ::: source core/model/attention.py scaled_scores
    ::: source core/model/embedding.py PositionalEncoding.__init__ /first words/ /last words/
    ::: python
    ::: commands
    ::: configuration
"""

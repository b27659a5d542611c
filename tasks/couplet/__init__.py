"""Couplets (对联): the second line 下联 for a first line 上联, under the rules of the form."""

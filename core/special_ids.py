"""The ids of the special tokens: those of every vocabulary, model, search and loss."""

UNK_ID, PAD_ID, BOS_ID, EOS_ID = SPECIAL_IDS = range(4)

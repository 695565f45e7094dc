"""Words: the most frequent ones are pieces, and all others are spelled out."""

from __future__ import annotations

from collections import Counter

from pieces.methods import Split, Vocabulary
from pieces.methods.letters import METHOD as LETTERS


__all__ = ["METHOD", "Words"]


class Words:
    """Whole words, as far as the vocabulary goes."""

    def learn(self, texts: list[str], size: int, seed: int) -> Vocabulary:
        """Return the letters and the most frequent words."""
        vocabulary = LETTERS.learn(texts, size, seed)
        counts = Counter(word for text in texts for word in text.split() if len(word) > 1)
        for word, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))[: size - len(vocabulary)]:
            vocabulary[word] = 0.0
        return vocabulary

    def split(self, vocabulary: Vocabulary, word: str) -> Split:
        """Return a word as it is, if it is known."""
        return [word] if word in vocabulary else list(word)


METHOD = Words()

"""Tokenizers for languages with rich words: data, methods and the runner."""

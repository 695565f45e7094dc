"""Check a finished run: are its records what was written, and do its verdicts come out again?"""

"""What a session tells the outside while it goes on, and leaves behind: journal, manifest, JUnit XML and CTRF JSON."""

"""What is measured, and by what: README.md says what is where."""

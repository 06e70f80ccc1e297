"""What is kept: records, the fragments that hold them, and every data command as a function."""

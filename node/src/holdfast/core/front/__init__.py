"""Everything that a Redis client needs beside its data: sessions, and what is asked of a member."""

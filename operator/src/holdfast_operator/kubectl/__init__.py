"""`kubectl holdfast`: what people ask most, in a word each: it reads and patches Clusters."""

"""The data of partitions: what a replica holds, how it is compared and brought up to date."""

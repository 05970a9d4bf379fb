"""The pods of the 2016 and 2017 tutorials: how they find their rank, train, and put their data on the volume."""

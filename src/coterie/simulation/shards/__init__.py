"""One run divided into shards: each has some of the peers, with their models, data and trainer."""

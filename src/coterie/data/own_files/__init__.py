"""Data that already belong to peers: tables, arrays and folders of images."""

"""What the SQL databases share: the layout, the statements and the transactions."""

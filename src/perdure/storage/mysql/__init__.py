"""MySQL and MariaDB: any number of processes and hosts, one round trip for a save."""

"""The stored resources: tables, the connection, and the queries on each resource."""

//! Frames over TLS and TCP: limits, rates, waits, what the kernel says of a connection.

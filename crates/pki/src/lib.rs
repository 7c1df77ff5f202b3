//! Certificates: the server's authority, requests, and TLS configurations on both sides.

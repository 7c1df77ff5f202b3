//! Types of the HTTP API: what the server and its clients say to each other in JSON.

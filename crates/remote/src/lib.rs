//! A repository on a server, as pipelines use it.

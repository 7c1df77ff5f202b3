//! Content-defined cutting of files. Pure.

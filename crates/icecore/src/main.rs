//! The binary: flags, wiring, printing.
fn main() {}

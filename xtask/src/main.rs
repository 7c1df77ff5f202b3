//! Developer commands and checks of the house.
fn main() {}

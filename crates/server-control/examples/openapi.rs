//! Prints the OpenAPI document: `cargo run -p server --example openapi > docs/openapi.json`.

#![allow(clippy::print_stdout, reason = "it is what this is for")]

fn main() {
    println!("{}", server_control::http::openapi::text());
}

//! The binary; what it does is in the library beside it.

use std::process::ExitCode;

fn main() -> ExitCode {
    icecore::main()
}

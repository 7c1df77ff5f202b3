//! Programs that see another time.

/// The library that shows a program another time, where it is installed.
pub fn faketime() -> Option<&'static str> {
    let libraries = [
        "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1",
        "/usr/lib/aarch64-linux-gnu/faketime/libfaketime.so.1",
    ];
    libraries.into_iter().find(|library| std::fs::exists(library).unwrap_or(false))
}

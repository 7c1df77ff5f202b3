//! The files of the repository.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The top folder of the repository.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// Every file that is or could be committed, relative to the top folder, sorted.
pub(crate) fn all() -> Vec<String> {
    let mut files = tracked().unwrap_or_else(|| {
        let mut found = Vec::new();
        walk(&root(), "", &mut found);
        found
    });
    files.retain(|file| root().join(file).is_file());
    files.sort();
    files.dedup();
    files
}

/// Those of [`all`] with this extension, and their text.
pub(crate) fn with_extension(extension: &str) -> Vec<(String, String)> {
    let ends = format!(".{extension}");
    let names = all().into_iter().filter(|name| name.ends_with(&ends));
    names.filter_map(|name| Some((name.clone(), read(&name)?))).collect()
}

/// The text of a file; `None` when it is no text.
pub(crate) fn read(name: &str) -> Option<String> {
    std::fs::read(root().join(name)).ok().and_then(|bytes| String::from_utf8(bytes).ok())
}

fn tracked() -> Option<Vec<String>> {
    let list = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let output = Command::new("git").args(list).current_dir(root()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let names: Vec<String> =
        text.split('\0').filter(|name| !name.is_empty()).map(str::to_owned).collect();
    (output.status.success() && !names.is_empty()).then_some(names)
}

/// For a source archive without git.
fn walk(folder: &Path, prefix: &str, found: &mut Vec<String>) {
    const SKIPPED: [&str; 6] =
        [".git", "target", "node_modules", "__pycache__", "corpus", "artifacts"];
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && !SKIPPED.contains(&name.as_str()) => {
                walk(&entry.path(), &format!("{path}/"), found);
            }
            Ok(kind) if kind.is_file() => found.push(path),
            _ => {}
        }
    }
}

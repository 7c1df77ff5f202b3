//! The numbers of the code: how long files and functions are, and the share of comments. Tests are not counted.

use crate::{files, source};
use std::collections::BTreeMap;

/// What was counted in one crate.
#[derive(Default)]
struct Numbers {
    code: usize,
    comments: usize,
    /// Lines of each file.
    files: Vec<usize>,
    /// Lines of each function.
    functions: Vec<usize>,
}

/// A table in Markdown: one row for each crate, and the sum.
pub(crate) fn table() -> String {
    let mut crates: BTreeMap<String, Numbers> = BTreeMap::new();
    for (path, text) in files::with_extension("rs") {
        if let Some(name) = crate_of(&path) {
            crates.entry(name).or_default().add(&text);
        }
    }
    let mut all = Numbers::default();
    crates.values().for_each(|each| all.join(each));
    let mut rows = vec![
        "| crate | lines of code | comments | files | longest file | functions | median | 95 % | longest |".to_owned(),
        "|---|---|---|---|---|---|---|---|---|".to_owned(),
    ];
    rows.extend(crates.iter_mut().map(|(name, numbers)| numbers.row(name)));
    rows.push(all.row("**all**"));
    rows.join("\n") + "\n"
}

/// The crate that a source belongs to; `None` for tests, benches and examples.
fn crate_of(path: &str) -> Option<String> {
    let (folder, file) = path.split_once("/src/")?;
    (!source::is_test_file(&format!("src/{file}"))).then(|| folder.to_owned())
}

impl Numbers {
    fn add(&mut self, text: &str) {
        let code = source::without_tests(&source::code_only(text));
        let code_lines = code.lines().filter(|line| !line.trim().is_empty()).count();
        let is_comment = |line: &&str| line.trim_start().starts_with("//");
        let comments = tests_cut(text, &code).filter(is_comment).count();
        self.code += code_lines;
        self.comments += comments;
        self.files.push(code_lines + comments);
        self.functions.extend(source::functions(&code).iter().map(|function| function.lines));
    }

    fn join(&mut self, other: &Self) {
        self.code += other.code;
        self.comments += other.comments;
        self.files.extend(&other.files);
        self.functions.extend(&other.functions);
    }

    fn row(&mut self, name: &str) -> String {
        self.files.sort_unstable();
        self.functions.sort_unstable();
        let share = 100 * self.comments / (self.code + self.comments).max(1);
        let (files, functions) = (&self.files, &self.functions);
        format!(
            "| {name} | {} | {share} % | {} | {} | {} | {} | {} | {} |",
            self.code,
            files.len(),
            at(files, 100),
            functions.len(),
            at(functions, 50),
            at(functions, 95),
            at(functions, 100)
        )
    }
}

/// The lines before the tests, which stand at the end of a file.
fn tests_cut<'a>(text: &'a str, code: &str) -> impl Iterator<Item = &'a str> {
    let last = code.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()).last();
    text.lines().take(last.map_or(usize::MAX, |(number, _)| number + 1))
}

/// The value below which `percent` of the sorted values are.
fn at(sorted: &[usize], percent: usize) -> usize {
    let index = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    sorted.get(index).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_comments_and_functions_are_counted_without_the_tests() {
        let text = "//! A.\n\n/// B.\nfn one() {\n    1;\n}\n\n#[cfg(test)]\nmod tests {\n    // C\n    fn two() {}\n}\n";
        let mut numbers = Numbers::default();
        numbers.add(text);
        assert_eq!((numbers.code, numbers.comments, numbers.functions.len()), (3, 2, 1));
        assert!(numbers.row("x").starts_with("| x | 3 | 40 % | 1 | 5 | 1 | 3 |"));
        assert_eq!(crate_of("crates/a/src/b.rs"), Some("crates/a".to_owned()));
        assert_eq!(crate_of("crates/a/tests/b.rs"), None);
    }
}

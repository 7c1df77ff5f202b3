//! A promise that no test keeps is a wish: where documents promise, each row names its tests. That they
//! exist is for `tidy` to see.

use crate::files;

/// Documents, and the heading of the tables in them that promise. The last cell names tests.
const TABLES: [(&str, &str); 4] = [
    ("docs/THREATS.md", "| against | promise | by |"),
    ("docs/CRYPTO.md", "| promise | test |"),
    ("docs/GUIDE-ONE-MACHINE.md", "| promise | test |"),
    ("docs/GUIDE-SERVER.md", "| promise | test |"),
];
/// Promises without a test.
pub(crate) fn problems() -> Vec<String> {
    TABLES
        .iter()
        .flat_map(|(path, heading)| {
            in_document(path, &files::read(path).unwrap_or_default(), heading)
        })
        .chain(numbered("docs/CRYPTO.md"))
        .collect()
}

fn in_document(path: &str, text: &str, heading: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if !text.lines().any(|line| line == heading) {
        problems.push(format!("{path} has no table `{heading}`: what it promises has no tests"));
    }
    for row in rows(text, heading) {
        let cells: Vec<&str> = row.trim().trim_matches('|').split(" | ").collect();
        let has_all = cells.len() == heading.matches(" | ").count() + 1;
        if !has_all || !cells.last().is_some_and(|cell| names_a_test(cell)) {
            problems.push(format!("{path} promises without naming a test: {row}"));
        }
    }
    problems
}

/// The rows of all tables with this heading.
fn rows<'a>(text: &'a str, heading: &str) -> Vec<&'a str> {
    let mut rows = Vec::new();
    let mut lines = text.lines();
    while lines.any(|line| line == heading) {
        // The line of dashes, then the rows.
        lines.next();
        rows.extend(lines.by_ref().take_while(|line| line.starts_with('|')));
    }
    rows
}

/// A test is a sentence in code; a rig is a command.
fn names_a_test(cell: &str) -> bool {
    let is_test = |word: &str| word.matches('_').count() >= 3 && !word.contains(['/', ' ']);
    let is_rig = |word: &str| word.starts_with("cargo proof ") || word.starts_with("make ");
    cell.split('`').skip(1).step_by(2).any(|word| is_test(word) || is_rig(word))
}

/// Each number of the chapter "What is promised" has a row, by its number.
fn numbered(path: &str) -> Vec<String> {
    let text = files::read(path).unwrap_or_default();
    unanswered(&text)
        .into_iter()
        .map(|number| format!("{path}: promise {number} has no row of tests"))
        .collect()
}

fn unanswered(text: &str) -> Vec<String> {
    let chapter = text.lines().skip_while(|line| *line != "## What is promised").skip(1);
    let chapter = chapter.take_while(|line| !line.starts_with("## "));
    let number = |line: &str| line.split_once(". ").map(|(number, _)| number.to_owned());
    let promised = chapter.filter_map(number).filter(|number| number.parse::<u32>().is_ok());
    let rows = rows(text, "| promise | test |");
    let has_row = |number: &String| rows.iter().any(|row| row.starts_with(&format!("| {number} ")));
    promised.filter(|number| !has_row(number)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_promise_names_a_test() {
        assert_eq!(problems(), Vec::<String>::new());
    }

    #[test]
    fn a_promise_without_a_test_is_found() {
        let heading = "| promise | test |";
        let of =
            |row: &str| in_document("a.md", &format!("{heading}\n|---|---|\n{row}\n"), heading);
        assert_eq!(of("| it holds | `what_it_says_is_so` |").len(), 0);
        assert_eq!(of("| it holds | `cargo proof crash` |").len(), 0);
        assert_eq!(of("| it holds | by reading |").len(), 1);
        assert_eq!(of("| it holds | |").len(), 1);
        assert_eq!(of("| it holds |").len(), 1);
        assert_eq!(in_document("a.md", "nothing", heading).len(), 1);
    }

    #[test]
    fn a_numbered_promise_without_a_row_is_found() {
        let text = "## What is promised\n\n1. One.\n2. Two.\n\n## Then\n\n| promise | test |\n|---|---|\n| 1 one | x |\n";
        assert_eq!(unanswered(text), ["2"]);
    }
}

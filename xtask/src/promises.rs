//! A promise that no test keeps is a wish: where documents promise, each row of a table, each item of a list and each
//! paragraph names its tests. That they exist is for `tidy` to see. In prose that users read, the names may stand in
//! a comment (`<!-- kept by ... -->`), which only the source shows.

use crate::files;

/// Documents, and the heading of the tables in them that promise. The last cell names tests.
const TABLES: [(&str, &str); 4] = [
    ("docs/THREATS.md", "| against | promise | by |"),
    ("docs/CRYPTO.md", "| promise | test |"),
    ("docs/GUIDE-ONE-MACHINE.md", "| promise | test |"),
    ("docs/GUIDE-SERVER.md", "| promise | test |"),
];

/// Documents, and the heading of a chapter in them whose numbered list promises.
const LISTS: [(&str, &str); 3] = [
    ("docs/THREATS.md", "## Rules that follow"),
    ("docs/LOCKING.md", "## Mechanics"),
    ("README.md", "## What it promises, in this order"),
];

/// Documents whose prose is read, and the chapter in each that says what is not promised.
const PROSE: [(&str, &str); 6] = [
    ("README.md", ""),
    ("docs/THREATS.md", "## What does not hold"),
    ("docs/CRYPTO.md", "## What is not promised"),
    ("docs/LOCKING.md", ""),
    ("docs/GUIDE-ONE-MACHINE.md", ""),
    ("docs/GUIDE-SERVER.md", ""),
];
/// Who says one of these words promises something.
const WORDS: [&str; 2] = ["never", "always"];

/// Promises without a test.
pub(crate) fn problems() -> Vec<String> {
    TABLES
        .iter()
        .flat_map(|(path, heading)| {
            in_document(path, &files::read(path).unwrap_or_default(), heading)
        })
        .chain(numbered("docs/CRYPTO.md"))
        .chain(LISTS.iter().flat_map(|(path, chapter)| in_list(path, chapter)))
        .chain(PROSE.iter().flat_map(|(path, but)| in_prose(path, but)))
        .collect()
}

/// Items of the numbered list below `chapter` that name no test.
fn in_list(path: &str, chapter: &str) -> Vec<String> {
    let text = files::read(path).unwrap_or_default();
    let items: Vec<Block> =
        blocks(&text).into_iter().filter(|it| it.chapter == chapter && it.is_item()).collect();
    if items.is_empty() {
        return vec![format!("{path} has no numbered list below `{chapter}`")];
    }
    unkept(path, items.into_iter())
}

/// Paragraphs, items and rows that promise by their words, and name no test.
fn in_prose(path: &str, but: &str) -> Vec<String> {
    let text = files::read(path).unwrap_or_default();
    unkept(path, blocks(&text).into_iter().filter(|it| it.promises() && it.chapter != but))
}

fn unkept(path: &str, blocks: impl Iterator<Item = Block>) -> Vec<String> {
    let without = blocks.filter(|block| !names_a_test(&block.text));
    without.map(|block| format!("{path} promises without naming a test: {}", block.text)).collect()
}

/// A paragraph, an item of a list or a row of a table.
struct Block {
    /// The heading of its chapter.
    chapter: String,
    text: String,
}

impl Block {
    /// Whether it is of a numbered list.
    fn is_item(&self) -> bool {
        self.text.split_once(". ").is_some_and(|(number, _)| number.parse::<u32>().is_ok())
    }

    /// Whether a word of its prose promises: what stands between backticks is code.
    fn promises(&self) -> bool {
        let prose: String = self.text.split('`').step_by(2).collect();
        let mut words = prose.split(|letter: char| !letter.is_alphabetic());
        words.any(|word| WORDS.contains(&word.to_lowercase().as_str()))
    }
}

/// The blocks of a document, without its headings and its code.
fn blocks(text: &str) -> Vec<Block> {
    let (mut blocks, mut chapter, mut is_code) = (Vec::<Block>::new(), String::new(), false);
    let mut is_open = false;
    for line in text.lines() {
        if line.starts_with("```") {
            (is_code, is_open) = (!is_code, false);
        } else if is_code || line.trim().is_empty() {
            is_open = false;
        } else if line.starts_with('#') {
            is_open = false;
            if line.starts_with("## ") {
                chapter = line.to_owned();
            }
        } else if let Some(block) = blocks.last_mut().filter(|_| is_open && !begins(line)) {
            block.text.push(' ');
            block.text.push_str(line.trim());
        } else {
            blocks.push(Block { chapter: chapter.clone(), text: line.to_owned() });
            is_open = true;
        }
    }
    blocks
}

/// Whether a line begins an item or a row.
fn begins(line: &str) -> bool {
    let is_number = |text: &str| text.parse::<u32>().is_ok();
    line.starts_with("- ")
        || line.starts_with('|')
        || line.split_once(". ").is_some_and(|(first, _)| is_number(first))
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
    fn a_promise_in_prose_without_a_test_is_found() {
        let promising = |text: &str| {
            let found = blocks(text).into_iter().filter(Block::promises);
            found.filter(|block| !names_a_test(&block.text)).count()
        };
        assert_eq!(promising("It is never\nlost.\n\nIt may be.\n"), 1);
        assert_eq!(promising("It is\nnever lost (`what_it_says_is_so`).\n"), 0);
        assert_eq!(promising("Never. <!-- kept by `what_it_says_is_so` -->\n"), 0);
        assert_eq!(promising("- It always is.\n- It never is (`what_it_says_is_so`).\n"), 1);
        assert_eq!(
            promising("`--overwrite always`\n```\nnever\n```\n# Always\nNevertheless.\n"),
            0
        );
    }

    #[test]
    fn items_of_a_list_and_their_chapters_are_told_apart() {
        let text =
            "1. None.\n## One\nText.\n\n1. First\n   goes on.\n2. Second.\n## Two\n1. Third.\n";
        let items = blocks(text).into_iter().filter(|it| it.is_item() && it.chapter == "## One");
        let texts: Vec<_> = items.map(|block| block.text).collect();
        assert_eq!(texts, ["1. First goes on.", "2. Second."]);
    }

    #[test]
    fn a_numbered_promise_without_a_row_is_found() {
        let text = "## What is promised\n\n1. One.\n2. Two.\n\n## Then\n\n| promise | test |\n|---|---|\n| 1 one | x |\n";
        assert_eq!(unanswered(text), ["2"]);
    }
}

//! One word for each thing: `docs/GLOSSARY.md` lists, in the column "not used", words that once meant the same. None
//! of them may come back.
//!
//! An entry in backticks is an identifier: no Rust source may have it, exactly so. Any other entry is a word or a
//! phrase: it may stand in no document, comment, string or name. Ambiguous words ("order", "cut") have everyday uses,
//! so the glossary lists the identifier or the phrase that is meant, never the word alone.

use crate::{files, source, spelling};
use std::collections::HashMap;

const GLOSSARY: &str = "docs/GLOSSARY.md";
const HEADING: [&str; 3] = ["word", "meaning", "not used"];

/// A word that is not used.
#[derive(Debug, PartialEq, Eq)]
struct Unused {
    /// An identifier, or the words of a phrase in lower case.
    what: What,
    /// The word that is used instead.
    instead: String,
}

#[derive(Debug, PartialEq, Eq)]
enum What {
    Identifier(String),
    Phrase(Vec<String>),
}

/// Words of the repository that are not used any more, and British spellings.
pub(crate) fn problems() -> Vec<String> {
    let unused = parse(&files::read(GLOSSARY).unwrap_or_default());
    if unused.is_empty() {
        return vec![format!("{GLOSSARY} has no table with the heading {HEADING:?}")];
    }
    let mut problems = Vec::new();
    for path in files::all().iter().filter(|path| is_checked(path)) {
        let Some(text) = files::read(path) else { continue };
        problems.extend(in_file(path, &text, &unused));
    }
    problems
}

/// Sources, documents and what builds them; not the history, nor what machines wrote.
fn is_checked(path: &str) -> bool {
    const ENDINGS: [&str; 8] = ["rs", "md", "py", "toml", "json", "html", "service", "txt"];
    const LEFT_OUT: [&str; 11] = [
        GLOSSARY,
        "CHANGELOG.md",
        "Cargo.lock",
        "docs/adr/",
        "docs/results/",
        "bench/results/",
        "xtask/src/words.rs",
        "xtask/src/spelling.rs",
        "fuzz/seeds/",
        "/testdata/",
        "deny.toml",
    ];
    let name = path.rsplit('/').next().unwrap_or(path);
    let ends = name.rsplit_once('.').is_some_and(|(_, end)| ENDINGS.contains(&end));
    (ends || name == "Makefile" || path.starts_with(".ci/"))
        && !LEFT_OUT.iter().any(|out| path.starts_with(out) || path.contains(out))
}

/// The third column of the glossary's tables.
fn parse(glossary: &str) -> Vec<Unused> {
    let mut unused = Vec::new();
    for cells in source::tables(glossary, &HEADING) {
        let instead = cells[0].replace("**", "");
        for entry in cells[2].split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            let what = match entry.strip_prefix('`').and_then(|entry| entry.strip_suffix('`')) {
                Some(identifier) => What::Identifier(identifier.to_owned()),
                None => What::Phrase(entry.to_lowercase().split(' ').map(str::to_owned).collect()),
            };
            unused.push(Unused { what, instead: instead.clone() });
        }
    }
    unused
}

/// Problems of one file. Each word is looked up once: there are a million of them.
fn in_file(path: &str, text: &str, unused: &[Unused]) -> Vec<String> {
    let (mut by_name, mut by_first) = (HashMap::new(), HashMap::<&str, Vec<_>>::new());
    for Unused { what, instead } in unused {
        match what {
            What::Identifier(name) => drop(by_name.insert(name.as_str(), instead)),
            What::Phrase(phrase) => by_first.entry(&phrase[0]).or_default().push((phrase, instead)),
        }
    }
    let (prose, code) = parts(path, text);
    let mut problems = Vec::new();
    let mut find = |words: &[(usize, String)], shown: Option<&str>| {
        for (at, (line, word)) in words.iter().enumerate() {
            for (phrase, instead) in by_first.get(word.as_str()).into_iter().flatten() {
                let rest = words[at..].iter().map(|(_, word)| word);
                if rest.take(phrase.len()).eq(phrase.iter()) {
                    let what = shown.map_or_else(|| phrase.join(" "), str::to_owned);
                    problems.push(format!("{path}:{line}: \"{what}\" is not used: {instead}"));
                }
            }
            if let Some(american) = spelling::american(word) {
                problems.push(format!("{path}:{line}: {word} is British: {american}"));
            }
        }
    };
    find(&prose_words(&prose), None);
    let names = identifiers(&code);
    for (line, name) in &names {
        let words = source::words_of(name).into_iter().map(|word| (*line, word));
        find(&words.collect::<Vec<_>>(), Some(name));
    }
    for (line, name) in &names {
        if let Some(instead) = by_name.get(name.as_str()) {
            problems.push(format!("{path}:{line}: \"{name}\" is not used: {instead}"));
        }
    }
    problems
}

/// What people read in a file, and what compilers do; both with the lines of the file.
fn parts(path: &str, text: &str) -> (String, String) {
    if path.ends_with(".rs") {
        let code = source::code_only(text);
        let prose = source::difference(text, &code);
        return (source::without_spans(&prose), code);
    }
    if path.ends_with(".md") {
        let prose = source::without_spans(text);
        let code = source::difference(text, &prose);
        return (prose, code);
    }
    (text.to_owned(), String::new())
}

/// The words of prose in lower case, with their lines. What ends a part of a sentence is an empty word, so that no
/// phrase goes across it.
fn prose_words(prose: &str) -> Vec<(usize, String)> {
    let mut words = Vec::new();
    for (number, line) in prose.lines().enumerate() {
        let line = line.trim_start_matches([' ', '/', '!', '>', '#']);
        let mut word = String::new();
        for letter in line.chars().chain([' ']) {
            if letter.is_alphabetic() {
                word.extend(letter.to_lowercase());
                continue;
            }
            if !word.is_empty() {
                words.push((number + 1, std::mem::take(&mut word)));
            }
            if !matches!(letter, ' ' | '-' | '_' | '\'' | '’' | '*') {
                words.push((number + 1, String::new()));
            }
        }
        if line.is_empty() {
            words.push((number + 1, String::new()));
        }
    }
    words
}

/// The identifiers of code, with their lines.
fn identifiers(code: &str) -> Vec<(usize, String)> {
    let lines = code.lines().enumerate();
    let of_line = |(number, line): (usize, &str)| {
        let words = line.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
        let names = words.filter(|word| !word.is_empty()).map(str::to_owned);
        names.map(|name| (number + 1, name)).collect::<Vec<_>>()
    };
    lines.flat_map(of_line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
| word | meaning | not used |
|---|---|---|
| **disconnect** | a broken connection | `Cut`, after a cut |
| **retention** | rules | |
| **control server** | the one that decides | governing server |
";

    fn found(path: &str, text: &str) -> usize {
        in_file(path, text, &parse(TABLE)).len()
    }

    #[test]
    fn the_words_of_the_glossary_are_used_and_no_others() {
        assert_eq!(problems(), Vec::<String>::new());
    }

    #[test]
    fn the_column_is_read() {
        let unused = parse(TABLE);
        assert_eq!(unused.len(), 3);
        assert_eq!(unused[0].what, What::Identifier("Cut".into()));
        assert_eq!(unused[2].instead, "control server");
    }

    #[test]
    fn an_identifier_is_found_in_code_only() {
        assert_eq!(found("a.rs", "struct Cut;"), 1);
        assert_eq!(found("a.rs", "// Cut\nlet cut = \"Cut\"; CutPoint"), 0);
        assert_eq!(found("a.md", "the type `Cut`, and Cut the word"), 1);
    }

    #[test]
    fn a_phrase_is_found_in_prose_and_in_names() {
        assert_eq!(found("a.rs", "/// After a\n/// cut it resumes.\nfn f() {}"), 1);
        assert_eq!(found("a.rs", "fn governing_server() {}\nstruct GoverningServer;"), 2);
        assert_eq!(found("a.rs", "println!(\"the governing server says\");"), 1);
        assert_eq!(found("a.md", "It goes on after\na cut."), 1);
        assert_eq!(found("Makefile", "x: ## after a cut"), 1);
    }

    #[test]
    fn everyday_uses_are_no_alarm() {
        assert_eq!(found("a.rs", "// What comes after. A cut of the chunker."), 0);
        assert_eq!(found("a.md", "`after a cut`\n```\nafter a cut\n```\n"), 0);
        assert_eq!(found("a.rs", "f(\"after\", \"a cut\")"), 0);
    }

    #[test]
    fn a_british_spelling_is_found() {
        assert_eq!(found("a.rs", "// The colour.\nfn behaviour_of() {}"), 2);
        assert_eq!(found("a.md", "enrolled, enrollment, license, neighboring"), 0);
    }
}

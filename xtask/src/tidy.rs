//! Style that is executed: what a reader must be able to rely on.

use crate::{files, source};

/// Lines of a file that are no tests.
const FILE_LINES_MAX: usize = 600;
/// Lines of a function.
const FUNCTION_LINES_MAX: usize = 70;
/// Columns of a line of a source. `rustfmt` keeps code at 100; comments and what it cannot break may take more.
const SOURCE_COLUMNS_MAX: usize = 120;
/// Columns of a line of a document, except in tables, code and links.
const DOCUMENT_COLUMNS_MAX: usize = 160;
/// Functions that are longer for now: `path name`, one a line. The list may only shrink.
const EXCEPTIONS: &str = "xtask/long-functions.txt";
/// Lower this when the list shrinks; never raise it.
const EXCEPTIONS_MAX: usize = 0;

/// What is untidy in this repository.
pub(crate) fn problems() -> Vec<String> {
    let sources = files::with_extension("rs");
    let scripts = files::with_extension("py");
    let documents = files::with_extension("md");
    let mut problems = Vec::new();
    problems.extend(sources.iter().flat_map(|(path, text)| in_source(path, text)));
    let narrow = sources.iter().chain(&scripts);
    problems.extend(narrow.flat_map(|(path, text)| wide_source_lines(path, text)));
    problems.extend(documents.iter().flat_map(|(path, text)| wide_document_lines(path, text)));
    problems.extend(long_functions(&sources));
    problems.extend(documents.iter().flat_map(|(path, text)| in_document(path, text)));
    problems.extend(documents.iter().flat_map(|(path, text)| missing_paths(path, text)));
    let with_tests = [sources, scripts].concat();
    problems.extend(missing_tests(&with_tests, &documents));
    problems.extend(unexplained_libraries());
    problems.extend(files::all().iter().flat_map(|path| machine_paths(path)));
    problems.extend(files::all().iter().filter_map(|path| module_file(path)));
    problems
}

/// Lines of a source that are too wide. A line with a string is as wide as its string.
fn wide_source_lines(path: &str, text: &str) -> Vec<String> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.contains(['"', '`']));
    wide(path, lines, SOURCE_COLUMNS_MAX)
}

/// Lines of a document that are too wide: prose, outside of tables and code.
fn wide_document_lines(path: &str, text: &str) -> Vec<String> {
    if path.contains("/results/") {
        // What programs wrote.
        return Vec::new();
    }
    let mut fenced = false;
    let lines = text.lines().enumerate().filter(|(_, line)| {
        let line = line.trim_start();
        fenced ^= line.starts_with("```");
        !fenced && !line.starts_with(['|', '`']) && !line.contains("](")
    });
    let lines: Vec<_> = lines.collect();
    wide(path, lines.into_iter(), DOCUMENT_COLUMNS_MAX)
}

fn wide<'a>(
    path: &str,
    lines: impl Iterator<Item = (usize, &'a str)>,
    columns_max: usize,
) -> Vec<String> {
    let wide = lines.filter(|(_, line)| line.chars().count() > columns_max);
    let number = wide.map(|(at, _)| at + 1);
    number.map(|line| format!("{path}:{line} is wider than {columns_max} columns")).collect()
}

/// A module is `name.rs`, with its parts in `name/`. Only what test binaries share is in `name/mod.rs`: there Cargo
/// would take `tests/name.rs` for a test of its own, and a `#[path]` needs it.
fn module_file(path: &str) -> Option<String> {
    let folder = path.strip_suffix("/mod.rs")?;
    let is_of_tests = path.contains("/tests/") && !path.contains("/src/");
    (!is_of_tests).then(|| format!("{path}: a module is {folder}.rs"))
}

fn in_source(path: &str, text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let all = source::code_only(text);
    let code = source::without_tests(&all);
    let lines = code.lines().zip(text.lines());
    // What stands under `#[cfg(test)]` is blank now, but so are comments: count those again.
    let counted =
        lines.filter(|(code, text)| !code.trim().is_empty() || text.trim_start().starts_with("//"));
    let count = counted.count();
    if count > FILE_LINES_MAX && !source::is_test_file(path) {
        problems.push(format!("{path} has {count} lines, more than {FILE_LINES_MAX}: split it"));
    }
    problems.extend(examples(path, text));
    for (number, line) in all.lines().enumerate() {
        for word in ["todo!", "unimplemented!", "#[ignore"] {
            if line.contains(word) {
                problems
                    .push(format!("{path}:{}: {word} is not for what is committed", number + 1));
            }
        }
    }
    problems
}

/// Examples in the documentation would be tests that `make test` does not run: it takes minutes to look for them.
fn examples(path: &str, text: &str) -> Vec<String> {
    let fence = |line: &str| {
        let line = line.trim_start();
        let comment = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))?;
        comment.trim_start().strip_prefix("```").map(str::to_owned)
    };
    let fences = text.lines().enumerate().filter_map(|(at, line)| Some((at + 1, fence(line)?)));
    let opening =
        fences.step_by(2).filter(|(_, language)| !["text", "toml"].contains(&language.as_str()));
    opening
        .map(|(line, _)| format!("{path}:{line}: an example is a test: write one, or ```text"))
        .collect()
}

fn long_functions(sources: &[(String, String)]) -> Vec<String> {
    let text = files::read(EXCEPTIONS).unwrap_or_default();
    let excepted: Vec<&str> =
        text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    let mut problems = Vec::new();
    let mut long = Vec::new();
    for (path, text) in sources {
        let code = source::code_only(text);
        for function in source::functions(&code) {
            if function.lines > FUNCTION_LINES_MAX {
                let name = format!("{path} {}", function.name);
                if !excepted.contains(&name.as_str()) {
                    let (line, lines) = (function.line, function.lines);
                    problems.push(format!(
                        "{name} (line {line}) has {lines} lines, more than {FUNCTION_LINES_MAX}"
                    ));
                }
                long.push(name);
            }
        }
    }
    let stale = excepted.iter().filter(|name| !long.iter().any(|other| other == *name));
    problems.extend(
        stale.map(|name| {
            format!("{EXCEPTIONS}: {name} is short now: remove it and lower the limit")
        }),
    );
    if excepted.len() > EXCEPTIONS_MAX {
        problems.push(format!("{EXCEPTIONS} grew over {EXCEPTIONS_MAX}"));
    }
    problems
}

fn in_document(path: &str, text: &str) -> Vec<String> {
    let headings = outside_fences(text).filter(|line| line.starts_with("# ")).count();
    if headings == 1 {
        Vec::new()
    } else {
        vec![format!("{path} has {headings} first headings, not one")]
    }
}

/// The lines of a document that are not in a fenced block.
fn outside_fences(text: &str) -> impl Iterator<Item = &str> {
    let mut fenced = false;
    text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    })
}

/// Paths of this repository that a document names and that do not exist.
fn missing_paths(document: &str, text: &str) -> Vec<String> {
    let folder = document.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut problems = Vec::new();
    for line in outside_fences(text) {
        let spans = line.split('`').skip(1).step_by(2).flat_map(str::split_whitespace);
        let named = spans.filter(|word| is_path(word)).map(|word| (word.to_owned(), "names"));
        let linked = links(line).map(|link| (files_relative(folder, &link), "links to"));
        for (path, how) in named.chain(linked) {
            if !files::root().join(&path).exists() {
                problems.push(format!("{document} {how} {path}, which does not exist"));
            }
        }
    }
    problems
}

/// Tests that documents cite, and that no source has. A test is a sentence: three words or more.
fn missing_tests(sources: &[(String, String)], documents: &[(String, String)]) -> Vec<String> {
    let is_sentence = |word: &str| {
        word.matches('_').count() >= 3
            && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    };
    let mut problems = Vec::new();
    for (path, text) in documents {
        let words = outside_fences(text).flat_map(|line| line.split('`').skip(1).step_by(2));
        for word in words.filter(|word| is_sentence(word)) {
            // The second is a row of a macro that makes tests alike, the third a test in Python.
            let wanted =
                [format!("fn {word}("), format!("\n    {word}: "), format!("    def {word}(")];
            if !sources.iter().any(|(_, text)| wanted.iter().any(|it| text.contains(it))) {
                problems.push(format!("{path} cites the test {word}, which does not exist"));
            }
        }
    }
    problems
}

/// Libraries of the workspace without a line of reason, and lines without a library.
fn unexplained_libraries() -> Vec<String> {
    const REASONS: &str = "docs/adr/0009-dependencies.md";
    let (manifest, reasons) = (files::read("Cargo.toml"), files::read(REASONS));
    let (manifest, reasons) = (manifest.unwrap_or_default(), reasons.unwrap_or_default());
    let section = manifest.split("[workspace.dependencies]").nth(1).unwrap_or_default();
    let lines = section.lines().take_while(|line| !line.starts_with('['));
    let named =
        lines.filter(|line| !line.contains("path =")).filter_map(|line| line.split_once('='));
    let mut used: Vec<&str> = named.map(|(name, _)| name.trim()).collect();
    let mut told: Vec<&str> =
        reasons.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    used.sort_unstable();
    told.sort_unstable();
    let without = used.iter().filter(|name| !told.contains(name));
    let without = without.map(|name| format!("{REASONS} has no line for {name}"));
    let strange = told.iter().filter(|name| !used.contains(name));
    without
        .chain(strange.map(|name| format!("{REASONS} explains {name}, which is not used")))
        .collect()
}

/// Whether `word` is meant as a path from the top folder.
fn is_path(word: &str) -> bool {
    const TOP: [&str; 12] = [
        "crates/", "docs/", "proof/", "testkit/", "xtask/", "fuzz/", "bench/", "demo/", ".ci/",
        "tests/", "console/", ".cargo/",
    ];
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
    // What is made, and so is not there in a fresh copy.
    let made = ["fuzz/corpus", "fuzz/target", "fuzz/artifacts", "bench/results/"];
    TOP.iter().any(|top| word.starts_with(top))
        && word.chars().all(plain)
        && !made.iter().any(|made| word.starts_with(made))
}

fn links(line: &str) -> impl Iterator<Item = String> + '_ {
    let parts = line.split("](").skip(1).filter_map(|part| part.split([')', '#']).next());
    let local = parts
        .filter(|link| !link.is_empty() && !link.contains("://") && !link.starts_with("mailto:"));
    local.map(str::to_owned)
}

fn files_relative(folder: &str, link: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    parts.join("/")
}

/// Paths of the machine on which a file was written.
fn machine_paths(path: &str) -> Vec<String> {
    // Spelled in halves, so that this file does not find itself. The second with its dot: where
    // tools keep their things. A file of root's own may stand in an example.
    let roots = [concat!("/wo", "rk/"), concat!("/ro", "ot/.")];
    let Some(text) = files::read(path) else {
        return Vec::new();
    };
    let mut problems = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let hit = roots.iter().any(|root| line.match_indices(root).any(|(at, _)| begins(line, at)));
        if hit {
            problems.push(format!("{path}:{} carries a path of one machine", number + 1));
        }
    }
    problems
}

/// Whether a path begins at `at`, and does not only go on there.
fn begins(line: &str, at: usize) -> bool {
    let before = line[..at].chars().next_back().unwrap_or(' ');
    !before.is_alphanumeric() && !"._-~}$".contains(before)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_is_tidy() {
        assert_eq!(problems(), Vec::<String>::new());
    }

    #[test]
    fn every_library_has_a_line() {
        assert_eq!(unexplained_libraries(), Vec::<String>::new());
    }

    #[test]
    fn a_cited_test_must_exist() {
        let sources = [("a.rs".to_owned(), "fn what_is_there_is_found() {}".to_owned())];
        let document = |text: &str| [("a.md".to_owned(), text.to_owned())];
        assert_eq!(missing_tests(&sources, &document("`what_is_there_is_found`")).len(), 0);
        assert_eq!(missing_tests(&sources, &document("`what_is_not_there_is_told`")).len(), 1);
    }

    #[test]
    fn untidy_sources_are_found() {
        let mark = concat!("to", "do!()");
        assert_eq!(in_source("a.rs", &format!("fn f() {{ {mark} }}")).len(), 1);
        assert_eq!(in_source("a.rs", &format!("// {mark}\n")).len(), 0);
        assert_eq!(in_source("a.rs", &"x;\n".repeat(FILE_LINES_MAX + 1)).len(), 1);
        let (example, shape) = ("/// ```\n/// f()\n/// ```\n", "//! ```text\n//! f\n//! ```\n");
        assert_eq!(in_source("a.rs", &format!("{shape}{example}")).len(), 1);
        assert_eq!(in_source("a.rs", shape).len(), 0);
        let tests = format!("#[cfg(test)]\nmod t {{\n{}}}", "x;\n".repeat(FILE_LINES_MAX));
        assert_eq!(in_source("a.rs", &tests).len(), 0);
    }

    #[test]
    fn a_long_function_is_found() {
        let text = format!("fn f() {{\n{}}}", "x;\n".repeat(FUNCTION_LINES_MAX));
        assert_eq!(long_functions(&[("a.rs".to_owned(), text)]).len(), 1);
    }

    #[test]
    fn untidy_documents_are_found() {
        assert_eq!(in_document("a.md", "# One\n```\n# no\n```\n"), Vec::<String>::new());
        assert_eq!(in_document("a.md", "# One\n# Two\n").len(), 1);
        assert_eq!(missing_paths("a.md", "see `crates/nowhere` and [x](docs/none.md)").len(), 2);
        assert_eq!(
            missing_paths("docs/a.md", "`crates/ids` [x](../README.md#top) `index/state`").len(),
            0
        );
    }

    #[test]
    fn wide_lines_are_found() {
        let (wide, narrow) = ("x ".repeat(61), "x ".repeat(60));
        assert_eq!(wide_source_lines("a.rs", &format!("// {narrow}\n// {wide}\n")).len(), 2);
        assert_eq!(wide_source_lines("a.rs", &format!("{narrow}\nf(\"{wide}\")\n")).len(), 0);
        let wide = wide.repeat(2);
        let text = format!("{wide}\n\n| {wide} |\n\n```\n{wide}\n```\nsee [{wide}](x)\n");
        assert_eq!(wide_document_lines("a.md", &text), ["a.md:1 is wider than 160 columns"]);
    }

    #[test]
    fn modules_have_one_style() {
        assert!(module_file("crates/a/src/b/mod.rs").is_some());
        assert!(module_file("crates/a/src/tests/mod.rs").is_some());
        assert!(module_file("crates/a/src/b.rs").is_none());
        assert!(module_file("crates/a/tests/it/b/mod.rs").is_none());
    }

    #[test]
    fn a_path_of_a_machine_begins_somewhere() {
        assert!(begins("see /x/", 4));
        assert!(!begins("~/x/", 1));
        assert!(!begins("p/x/", 1));
    }
}

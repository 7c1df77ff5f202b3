//! Where a key stands in a file.

use crate::check::Problem;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The byte at which what a problem names begins; of a key that is missing, the table.
pub(super) fn of(file: &DeTable<'_>, problem: &Problem) -> usize {
    let Some((_, names)) = entry(file, problem.kind.name()) else { return 0 };
    let Some((mut place, mut value)) =
        names.get_ref().as_table().and_then(|names| entry(names, &problem.name))
    else {
        return 0;
    };
    for part in &problem.key {
        let inner = match value.get_ref() {
            DeValue::Table(table) => entry(table, part),
            DeValue::Array(list) => at(list, part),
            // A list of one word may be written as that word.
            _ => None,
        };
        let Some((begin, next)) = inner else { break };
        (place, value) = (begin, next);
    }
    place
}

/// An entry of a table, with the byte at which its value begins; of a table, its key.
fn entry<'a, 'i>(table: &'a DeTable<'i>, name: &str) -> Option<(usize, &'a Spanned<DeValue<'i>>)> {
    let (key, value) = table.iter().find(|(key, _)| key.get_ref().as_ref() == name)?;
    let is_table = value.get_ref().as_table().is_some();
    Some((if is_table { key.span().start } else { value.span().start }, value))
}

fn at<'a, 'i>(
    list: &'a [Spanned<DeValue<'i>>],
    position: &str,
) -> Option<(usize, &'a Spanned<DeValue<'i>>)> {
    let value = list.get(position.parse::<usize>().ok()?)?;
    Some((value.span().start, value))
}

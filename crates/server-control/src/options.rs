//! Client options that the server sets for its nodes. What a value means, the node decides with its flags' own
//! parsers: the server keeps texts.

use crate::error::parse_name;
use crate::open::Parts;
use crate::scheduler::declared;
use crate::{Error, Result, by, now_secs};
use api::Name;
use api::options::{
    NAME_BYTES_MAX, NodeOptions, OPTIONS_MAX, OptionChange, OptionReport, OptionValue, Options,
    SetOptions, TOTAL_BYTES_MAX, VALUE_BYTES_MAX, VALUES_MAX, total_bytes,
};
use catalog::Catalog;
use parking_lot::Mutex;
use server_contract::access_control::Node;
use site::{Said, SaidOfNode, Site};
use std::sync::Arc;

/// The options of nodes.
pub(crate) struct ClientOptions {
    catalog: Arc<Catalog>,
    /// The site, and its version.
    site: Mutex<Option<(u64, Arc<Site>)>>,
}

impl ClientOptions {
    /// The options of the nodes of this server.
    pub(crate) fn new(parts: &Parts) -> Self {
        Self { catalog: parts.catalog.clone(), site: Mutex::default() }
    }

    /// The site as it is now; read again only if it has changed.
    fn site(&self) -> Result<Arc<Site>> {
        let version = self.catalog.site_version()?;
        if let Some((known, site)) = &*self.site.lock()
            && *known == version
        {
            return Ok(site.clone());
        }
        let objects = self.catalog.objects()?;
        let read = (objects.version, Arc::new(declared(objects)));
        let site = read.1.clone();
        *self.site.lock() = Some(read);
        Ok(site)
    }

    /// The options of a node, and what it tells about them.
    ///
    /// # Errors
    /// [`Error::Catalog`] when there is no such node.
    pub(crate) fn of(&self, node: &Name) -> Result<NodeOptions> {
        Ok(self.catalog.options(node)?)
    }

    /// Changes the options of a node. It gets them when it backs up next, or within minutes if its agent runs.
    ///
    /// # Errors
    /// [`Error::Usage`] for what is too long or too many; [`Error::Catalog`].
    pub(crate) fn change(
        &self,
        who: &str,
        node: &Name,
        change: &OptionChange,
    ) -> Result<NodeOptions> {
        check(change).map_err(Error::Usage)?;
        let mut all = self.catalog.options(node)?.options;
        all.retain(|name, _| !change.unset.contains(name));
        all.extend(change.set.clone());
        check_all(&all).map_err(Error::Usage)?;
        Ok(self.catalog.change_options(by(who), node, change)?)
    }

    /// The reply to a node that tells about its options.
    ///
    /// # Errors
    /// [`Error::Usage`] for a report that is too long; [`Error::Catalog`].
    pub(crate) fn exchange(&self, node: &Node, report: &OptionReport) -> Result<SetOptions> {
        check_report(report).map_err(Error::Usage)?;
        let name = parse_name(&node.name)?;
        let own = self.catalog.note_option_report(&name, report, now_secs())?;
        Ok(together(own, self.site()?.options_by_hand(name.as_str())))
    }
}

/// What was set for the node itself stands above what its site says.
fn together(own: Options, said: SaidOfNode) -> SetOptions {
    let mut all = SetOptions { disputed: said.disputed, ..SetOptions::default() };
    for (name, Said { option, origin }) in said.options {
        let value = OptionValue { values: option.value.texts(), force: option.force };
        all.options.insert(name.clone(), value);
        all.origins.insert(name, origin);
    }
    for (name, value) in own {
        all.origins.remove(&name);
        all.disputed.remove(&name);
        all.options.insert(name, value);
    }
    all
}

fn check(change: &OptionChange) -> std::result::Result<(), String> {
    if change.set.len() > OPTIONS_MAX || change.unset.len() > OPTIONS_MAX {
        return Err(format!("a node has at most {OPTIONS_MAX} options"));
    }
    change.set.keys().chain(&change.unset).try_for_each(|name| check_name(name))?;
    change.set.iter().try_for_each(|(name, value)| check_value(name, value))
}

fn check_all(options: &Options) -> std::result::Result<(), String> {
    if options.len() > OPTIONS_MAX {
        return Err(format!("a node has at most {OPTIONS_MAX} options"));
    }
    if total_bytes(options) > TOTAL_BYTES_MAX {
        return Err(format!("the options of a node have at most {TOTAL_BYTES_MAX} bytes"));
    }
    Ok(())
}

fn check_name(name: &str) -> std::result::Result<(), String> {
    let is_good = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(is_good) {
        return Err(format!("'{}' is not the name of an option", name.escape_debug()));
    }
    Ok(())
}

fn check_value(name: &str, value: &OptionValue) -> std::result::Result<(), String> {
    if value.values.is_empty() || value.values.len() > VALUES_MAX {
        return Err(format!("{name}: an option has 1 to {VALUES_MAX} values"));
    }
    if value.values.iter().any(|text| text.len() > VALUE_BYTES_MAX) {
        return Err(format!("{name}: a value has at most {VALUE_BYTES_MAX} bytes"));
    }
    Ok(())
}

fn check_report(report: &OptionReport) -> std::result::Result<(), String> {
    if report.own.len() > OPTIONS_MAX || report.refused.len() > OPTIONS_MAX {
        return Err(format!("a report has at most {OPTIONS_MAX} options"));
    }
    report.own.iter().chain(report.refused.keys()).try_for_each(|name| check_name(name))?;
    if report.refused.values().any(|reason| reason.len() > VALUE_BYTES_MAX) {
        return Err(format!("a reason has at most {VALUE_BYTES_MAX} bytes"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(name: &str, values: &[String]) -> OptionChange {
        let value = OptionValue { values: values.to_vec(), force: true };
        OptionChange { set: [(name.to_owned(), value)].into(), unset: Vec::new() }
    }

    #[test]
    fn names_have_at_most_their_bytes_and_no_others() {
        let one = ["x".to_owned()];
        for (name, is_good) in [
            ("compression".to_owned(), true),
            ("a".repeat(NAME_BYTES_MAX), true),
            ("a".repeat(NAME_BYTES_MAX + 1), false),
            (String::new(), false),
            ("Big".to_owned(), false),
            ("a b".to_owned(), false),
        ] {
            assert_eq!(check(&set(&name, &one)).is_ok(), is_good, "{name}");
            let unset = OptionChange { unset: vec![name.clone()], ..OptionChange::default() };
            assert_eq!(check(&unset).is_ok(), is_good, "{name}");
        }
    }

    #[test]
    fn values_are_bounded_in_number_and_bytes() {
        let many = |count: usize| vec!["x".to_owned(); count];
        for (count, is_good) in [(0, false), (1, true), (VALUES_MAX, true), (VALUES_MAX + 1, false)]
        {
            assert_eq!(check(&set("tags", &many(count))).is_ok(), is_good, "{count}");
        }
        for (bytes, is_good) in [(VALUE_BYTES_MAX, true), (VALUE_BYTES_MAX + 1, false)] {
            assert_eq!(check(&set("tags", &["x".repeat(bytes)])).is_ok(), is_good, "{bytes}");
            let refused = [("nice".to_owned(), "x".repeat(bytes))].into();
            let report = OptionReport { refused, own: Vec::new() };
            assert_eq!(check_report(&report).is_ok(), is_good, "{bytes}");
        }
    }

    #[test]
    fn all_options_together_are_bounded_in_number_and_bytes() {
        for (count, is_good) in [(OPTIONS_MAX, true), (OPTIONS_MAX + 1, false)] {
            let value = OptionValue { values: vec!["x".into()], force: false };
            let all = (0..count).map(|number| (format!("n{number}"), value.clone())).collect();
            assert_eq!(check_all(&all).is_ok(), is_good, "{count}");
        }
        for (bytes, is_good) in [(TOTAL_BYTES_MAX - 1, true), (TOTAL_BYTES_MAX, false)] {
            let value = OptionValue { values: vec!["x".repeat(bytes)], force: false };
            assert_eq!(check_all(&[("n".to_owned(), value)].into()).is_ok(), is_good, "{bytes}");
        }
    }

    #[test]
    fn options_are_bounded_in_number() {
        for (count, is_good) in [(OPTIONS_MAX, true), (OPTIONS_MAX + 1, false)] {
            let names: Vec<_> = (0..count).map(|number| format!("n{number}")).collect();
            let report = OptionReport { own: names.clone(), ..OptionReport::default() };
            assert_eq!(check_report(&report).is_ok(), is_good, "{count}");
            let change = OptionChange { unset: names, ..OptionChange::default() };
            assert_eq!(check(&change).is_ok(), is_good, "{count}");
        }
    }
}

//! `icecore server options`.

use super::when;
use crate::codes::Code;
use crate::commands::backup::takes;
use crate::commands::reach::Reach;
use crate::context::Context;
use crate::escape;
use crate::failure::{Failure, Result};
use crate::node::policy::judge;
use crate::table::{Table, flexible, left};
use api::Name;
use api::options::{NodeOptions, OptionChange, OptionValue};

/// Set client options of a node, such as the compression level; without changes, show them.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  icecore server options web-01\n  icecore server options web-01 --force compression=9 --suggest nice=10\n  icecore server options web-01 --force exclude=*.iso --force exclude=*.tmp\n  icecore server options web-01 --unset compression\n\nThe node gets them with its next backup. A forced value precedes the command line, the environment and the config file of the node, a suggested one only the default. The node ignores what its allow.toml lists in `own`; that is shown here. A server cannot set what chooses repository, source or programs of a node."
)]
pub(crate) struct OptionsArgs {
    /// The node.
    #[arg(value_name = "NODE")]
    node: Name,
    /// Force a value. Can be given several times; for a list, once for each value.
    #[arg(long, value_name = "OPTION=VALUE", value_parser = assignment)]
    force: Vec<Assignment>,
    /// Suggest a value.
    #[arg(long, value_name = "OPTION=VALUE", value_parser = assignment)]
    suggest: Vec<Assignment>,
    /// Leave an option to the node.
    #[arg(long, value_name = "OPTION")]
    unset: Vec<String>,
}

/// An option and a value.
type Assignment = (String, String);

pub(super) fn assignment(text: &str) -> std::result::Result<Assignment, String> {
    let parts = text.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    parts.ok_or_else(|| "write OPTION=VALUE, such as compression=9".to_owned())
}

impl OptionsArgs {
    pub(crate) fn run(&self, reach: &Reach, context: &Context) -> Result<Code> {
        let path = format!("/nodes/{}/options", self.node);
        let change = self.change()?;
        let is_change = !change.set.is_empty() || !change.unset.is_empty();
        let options: NodeOptions =
            if is_change { reach.post(&path, &change)? } else { reach.get(&path)? };
        show(&options, context)?;
        context.out.summary(Code::Complete, &options)
    }

    /// What is to be changed. A value that no node would take is refused here.
    fn change(&self) -> Result<OptionChange> {
        let mut change = OptionChange { unset: self.unset.clone(), ..OptionChange::default() };
        let given = self.force.iter().map(|one| (one, true));
        for ((name, text), force) in given.chain(self.suggest.iter().map(|one| (one, false))) {
            let new = || OptionValue { values: Vec::new(), force };
            let value = change.set.entry(name.clone()).or_insert_with(new);
            if value.force != force || change.unset.contains(name) {
                return Err(Failure::usage(format!("{name} is given in two ways"))
                    .hint("Either force it, suggest it or unset it."));
            }
            value.values.push(text.clone());
        }
        for (name, value) in &change.set {
            judge(name, value, takes).map_err(|why| {
                Failure::usage(format!("{name}: {why}"))
                    .hint("Names and values are those of: icecore options")
            })?;
        }
        Ok(change)
    }
}

fn show(options: &NodeOptions, context: &Context) -> Result<()> {
    let columns = [left("OPTION"), flexible("VALUE"), left("HOW"), flexible("ON THE NODE")];
    let mut table = Table::new(&columns);
    for (name, value) in &options.options {
        let how = if value.force { "forced" } else { "suggested" };
        let values = escape::text(&value.values.join(" "));
        table.row([escape::text(name), values, how.to_owned(), on_node(options, name)]);
    }
    table.print(&context.out)?;
    if options.options.is_empty() {
        let node = &options.node;
        context.out.line(&format!(
            "The server sets no options of {node}. To set one: icecore server options {node} --force compression=9"
        ))?;
    }
    match options.reported {
        Some(at) => context.out.line(&format!("Told by the node at {}.", when(at))),
        None => context.out.line("The node has not asked for its options yet."),
    }
}

/// What the node said about it last.
fn on_node(options: &NodeOptions, name: &String) -> String {
    match &options.report {
        None => String::new(),
        Some(report) if report.own.contains(name) => "kept as its own".to_owned(),
        Some(report) => match report.refused.get(name) {
            Some(why) => escape::text(&format!("ignored: {why}")),
            None => "used".to_owned(),
        },
    }
}

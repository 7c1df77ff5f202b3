//! Client options that the server sets for nodes, and what nodes tell about them.

use crate::audit::note;
use crate::error::found;
use crate::sql::{Json, Sql, Word, values};
use crate::{By, Catalog, Result};
use api::Name;
use api::options::{NodeOptions, OptionChange, OptionReport, Options};

impl Catalog {
    /// The options of a node.
    ///
    /// # Errors
    /// [`crate::Error::Missing`] without such a node, [`crate::Error::Database`].
    pub fn options(&self, node: &Name) -> Result<NodeOptions> {
        self.look(|look| options(look, node))
    }

    /// Changes the options of a node; `check` says whether the result is good.
    ///
    /// # Errors
    /// [`crate::Error::Missing`] without such a node, [`crate::Error::Database`].
    pub fn change_options(
        &self,
        by: By<'_>,
        node: &Name,
        change: &OptionChange,
    ) -> Result<NodeOptions> {
        self.change(|sql| {
            let mut found = options(sql, node)?;
            change.unset.iter().for_each(|name| drop(found.options.remove(name)));
            found.options.extend(change.set.clone());
            let update = "INSERT INTO node_options (node, options) VALUES ($1, $2)
                ON CONFLICT (node) DO UPDATE SET options = excluded.options";
            sql.execute(update, values![Word(node), Json(&found.options)])?;
            note(sql, by, "options.change", node.as_str(), &detail(change))?;
            Ok(found)
        })
    }

    /// Records what a node tells about its options. Not in the audit log, and only if it is news: a node tells it
    /// with every backup.
    ///
    /// # Errors
    /// [`crate::Error::Missing`] without such a node, [`crate::Error::Database`].
    pub fn note_option_report(
        &self,
        node: &Name,
        report: &OptionReport,
        at: i64,
    ) -> Result<Options> {
        let known = self.options(node)?;
        if known.report.as_ref() == Some(report) {
            return Ok(known.options);
        }
        self.change(|sql| {
            let options = options(sql, node)?.options;
            let update = "INSERT INTO node_options (node, options, report, reported)
                VALUES ($1, $2, $3, $4)
                ON CONFLICT (node) DO UPDATE SET report = excluded.report, reported = excluded.reported";
            sql.execute(update, values![Word(node), Json(&options), Json(report), at])?;
            Ok(options)
        })
    }
}

fn options(sql: &Sql<'_>, node: &Name) -> Result<NodeOptions> {
    let count = "SELECT count(*) FROM nodes WHERE name = $1";
    let nodes: u64 = sql.one(count, values![Word(node)], |row| row.get(0))?;
    found(nodes, "node", node)?;
    let select = "SELECT options, report, reported FROM node_options WHERE node = $1";
    let stored = sql.row(select, values![Word(node)], |row| {
        let Json(options) = row.get::<Json<Options>>(0)?;
        let report = row.get::<Option<Json<OptionReport>>>(1)?.map(|Json(report)| report);
        Ok((options, report, row.get(2)?))
    })?;
    let (options, report, reported) = stored.unwrap_or_default();
    Ok(NodeOptions { node: node.clone(), options, report, reported })
}

/// Names and values, for the audit log.
fn detail(change: &OptionChange) -> String {
    let set = change.set.iter().map(|(name, value)| {
        let how = if value.force { "force" } else { "suggest" };
        format!("{how} {name}={}", value.values.join(" "))
    });
    let unset = change.unset.iter().map(|name| format!("unset {name}"));
    set.chain(unset).collect::<Vec<_>>().join(", ")
}

//! The plan of a restore, as people and programs read it.

use super::prices::{self, Price};
use super::tiers::{self, TierArg};
use crate::codes::Code;
use crate::context::Context;
use crate::failure::Result;
use crate::table::{Table, left, right};
use crate::units;
use object_storage::{ObjectState, Readable};
use pipeline::restore::RestoreNeeds;
use serde::Serialize;
use std::collections::BTreeMap;

/// Who publishes the times.
const TIMES_FROM: &str = "AWS";
/// Said of containers that somebody has asked for.
const COMING: &str = "being brought back";

/// What a restore needs, and what it takes to bring that back.
#[derive(Serialize)]
pub(super) struct Plan {
    snapshot_id: String,
    files: u64,
    bytes: u64,
    /// Chunks and pages that are lost.
    missing: u64,
    containers: u64,
    container_bytes: u64,
    /// Bytes that are read of them.
    read_bytes: u64,
    classes: Vec<Class>,
    /// What nobody has asked for yet.
    to_bring_back: Amount,
    tiers: Vec<TierRow>,
}

#[derive(Clone, Copy, Default, Serialize)]
struct Amount {
    containers: u64,
    bytes: u64,
}

/// The containers of one class and state.
#[derive(Serialize)]
struct Class {
    class: String,
    state: &'static str,
    #[serde(flatten)]
    amount: Amount,
    /// Until when one of them stays that was brought back, in the words of the storage.
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<String>,
}

#[derive(Serialize)]
struct TierRow {
    tier: &'static str,
    takes: String,
    takes_from: &'static str,
    /// By the prices that were given.
    price: Option<f64>,
}

impl Amount {
    fn add(&mut self, bytes: u64) {
        self.containers += 1;
        self.bytes += bytes;
    }
}

impl Plan {
    pub(super) fn new(
        needs: &RestoreNeeds,
        states: &[(String, ObjectState)],
        prices: (&[Price], &[Price]),
    ) -> Self {
        let archived = states.iter().filter(|(_, it)| it.readable == Readable::No);
        let archived: Vec<_> = archived.map(|(_, it)| it).collect();
        let mut all = Amount::default();
        states.iter().for_each(|(_, state)| all.add(state.bytes));
        let mut to_bring_back = Amount::default();
        archived.iter().for_each(|state| to_bring_back.add(state.bytes));
        Self {
            snapshot_id: String::new(),
            files: needs.files,
            bytes: needs.bytes,
            missing: needs.missing,
            containers: all.containers,
            container_bytes: all.bytes,
            read_bytes: needs.containers.values().sum(),
            classes: classes(states),
            to_bring_back,
            tiers: tiers(&archived, to_bring_back, prices),
        }
    }

    pub(super) fn show(mut self, context: &Context, (id, words): (String, &str)) -> Result<Code> {
        self.snapshot_id = id;
        context.out.line(&format!(
            "A restore of {} ({}) reads {} of {} ({})",
            units::many(self.files, "file"),
            units::bytes(self.bytes),
            units::bytes(self.read_bytes),
            units::many(self.containers, "container"),
            units::bytes(self.container_bytes),
        ))?;
        self.table().print(&context.out)?;
        if self.missing > 0 {
            let parts = units::many(self.missing, "part");
            context.out.line(&format!("{parts} of the snapshot are lost: icecore check"))?;
        }
        self.show_tiers(context, words)?;
        context.out.summary(Code::Complete, &self)
    }

    fn table(&self) -> Table {
        let columns = [left("CLASS"), right("CONTAINERS"), right("SIZE"), left("STATE")];
        let mut table = Table::new(&columns);
        for class in &self.classes {
            let state = match &class.until {
                Some(until) => format!("{}, until {until}", class.state),
                None => class.state.to_owned(),
            };
            let Amount { containers, bytes } = class.amount;
            let name = crate::escape::text(&class.class);
            let state = crate::escape::text(&state);
            table.row([name, units::count(containers), units::bytes(bytes), state]);
        }
        table
    }

    fn show_tiers(&self, context: &Context, words: &str) -> Result<()> {
        let Amount { containers, bytes } = self.to_bring_back;
        if containers == 0 {
            let is_coming = self.classes.iter().any(|class| class.state == COMING);
            let then = if is_coming { "when the rest is back" } else { "now" };
            let command = format!("icecore restore {words} --target DIR");
            return context.out.line(&format!("To restore {then}: {command}"));
        }
        let many = units::many(containers, "container");
        context.out.line(&format!("To bring back: {many} ({})", units::bytes(bytes)))?;
        let mut table = Table::new(&[left("TIER"), left("TIME"), right("PRICE")]);
        for row in &self.tiers {
            let price = row.price.map_or_else(String::new, |price| format!("{price:.2}"));
            table.row([row.tier.to_owned(), row.takes.clone(), price]);
        }
        table.print(&context.out)?;
        context.out.line(&self.origins())?;
        let ask = format!("icecore restore {words} --bring-back --tier bulk");
        context.out.line(&format!("To ask for them: {ask}"))
    }

    /// Where times and prices come from.
    fn origins(&self) -> String {
        let prices = match self.tiers.iter().any(|row| row.price.is_some()) {
            true => "Prices: by what you gave, without the transfer to this machine.",
            false => {
                "For a price: --price-gb and --price-request, from the price list of your storage."
            }
        };
        format!("Times: as {TIMES_FROM} publishes them; other storages have their own. {prices}")
    }
}

/// The containers by class and state.
fn classes(states: &[(String, ObjectState)]) -> Vec<Class> {
    let mut classes: BTreeMap<(&str, &'static str), Class> = BTreeMap::new();
    for (_, state) in states {
        let (word, until) = told(state);
        let class = classes.entry((&state.class, word)).or_insert_with(|| Class {
            class: state.class.clone(),
            state: word,
            amount: Amount::default(),
            until,
        });
        class.amount.add(state.bytes);
    }
    classes.into_values().collect()
}

/// What each tier takes that all classes of `archived` offer.
fn tiers(archived: &[&ObjectState], amount: Amount, prices: (&[Price], &[Price])) -> Vec<TierRow> {
    let offered = |tier: &TierArg| {
        let takes = |state: &&ObjectState| tier.of_storage().takes(&state.class).is_some();
        !archived.is_empty() && archived.iter().all(takes)
    };
    let row = |tier: TierArg| TierRow {
        tier: tier.name(),
        takes: tiers::times(tier.of_storage(), archived.iter().map(|state| &*state.class)),
        takes_from: TIMES_FROM,
        price: prices::total(tier, (amount.containers, amount.bytes), prices),
    };
    TierArg::ALL.into_iter().filter(offered).map(row).collect()
}

/// Whether containers of this state can be read, in words, and until when.
fn told(state: &ObjectState) -> (&'static str, Option<String>) {
    match &state.readable {
        Readable::Always => ("readable", None),
        Readable::Until(until) => ("brought back", Some(until.clone())),
        Readable::Soon => (COMING, None),
        Readable::No => ("archived", None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_nobody_has_asked_for_costs() {
        let named = |class, readable| {
            ("containers/x".to_owned(), ObjectState::for_tests(class, 1 << 30, readable))
        };
        let states = [
            named("STANDARD", Readable::Always),
            named("DEEP_ARCHIVE", Readable::Soon),
            named("DEEP_ARCHIVE", Readable::No),
            named("DEEP_ARCHIVE", Readable::No),
        ];
        let gb = [prices::parse("bulk=2").unwrap()];
        let plan = Plan::new(&RestoreNeeds::default(), &states, (&gb, &[]));
        assert_eq!((plan.containers, plan.to_bring_back.containers), (4, 2));
        let tiers: Vec<_> = plan.tiers.iter().map(|row| (row.tier, row.price)).collect();
        assert_eq!(tiers, [("standard", None), ("bulk", Some(4.0))], "nothing in minutes");
        assert_eq!(plan.classes.len(), 3);
    }
}

//! The site: what an administrator declares. One object, or all of them as a file, is changed by one rule: the whole
//! site that comes of it must fit together.
//!
//! What is wrong already does not keep anybody from changing something else: a node that is removed may leave a policy
//! that names it. Such a thing is told with each change, until it is gone.

mod changes;
mod promises;
mod stored;

pub(crate) use stored::Stored;

use crate::forget::PermittedForgets;
use crate::machine_clock::MachineClock;
use crate::open::Parts;
use crate::pools::Pools;
use crate::retention::{Gate, SnapshotTable, effects};
use crate::{Error, Result, by};
use ::retention::Facts;
use api::retention::SnapshotEffects;
use api::sites::{
    ApplySite, Mistake, PutObject, RemoveObject, SiteChange, SiteFile, SiteObject, SiteObjects,
};
use catalog::Catalog;
use jiff::tz::TimeZone;
use parking_lot::Mutex;
use site::file::FILE_BYTES_MAX;
use site::{Kind, Known, Plan, Problem, Site};
use std::collections::BTreeSet;
use std::sync::Arc;
use stored::declared;

/// How often a change is planned again because another program changed something else meanwhile.
const ATTEMPTS: u32 = 5;

/// The site of this server.
pub(crate) struct Sites {
    catalog: Arc<Catalog>,
    pools: Pools,
    /// As it was read last.
    read: Mutex<Option<Arc<Stored>>>,
    /// The snapshots to which a change may do something, and the time by which that is told.
    snapshots: Arc<SnapshotTable>,
    clock: Arc<MachineClock>,
    gate: Arc<Gate>,
    forgets: Arc<PermittedForgets>,
}

/// A site that would come of a change, with the file that describes it, if there is one.
struct Wanted<'a> {
    site: Site,
    text: Option<&'a str>,
}

/// What exists outside of the site.
struct Outside {
    nodes: BTreeSet<String>,
    domains: BTreeSet<String>,
    pools: BTreeSet<String>,
    storage_servers: BTreeSet<String>,
}

impl Outside {
    fn known(&self) -> Known<'_> {
        Known {
            nodes: Some(&self.nodes),
            domains: Some(&self.domains),
            pools: Some(&self.pools),
            storage_servers: Some(&self.storage_servers),
            zones: Some(&zone),
            are_tags_sealed: true,
        }
    }
}

/// The time zone of this name, if this machine knows it.
pub(crate) fn zone(name: &str) -> Option<TimeZone> {
    TimeZone::get(name).ok()
}

impl Sites {
    /// The site of this server.
    pub(crate) fn new(parts: &Parts) -> Self {
        Self {
            catalog: parts.catalog.clone(),
            pools: Pools::of(parts),
            read: Mutex::default(),
            snapshots: parts.snapshots.clone(),
            clock: parts.clock.clone(),
            gate: parts.gate.clone(),
            forgets: parts.forget_permissions.permitted.clone(),
        }
    }

    /// The site as it is now; read only when it was changed since the last call.
    ///
    /// # Errors
    /// [`Error::Catalog`]; [`Error::Object`] for an object that this program does not understand.
    pub(crate) fn stored(&self) -> Result<Arc<Stored>> {
        let mut read = self.read.lock();
        let version = self.catalog.site_version()?;
        if let Some(stored) = read.as_ref().filter(|stored| stored.version == version) {
            return Ok(stored.clone());
        }
        let stored = Arc::new(Stored::of(self.catalog.objects()?)?);
        *read = Some(stored.clone());
        Ok(stored)
    }

    /// All objects of a kind.
    ///
    /// # Errors
    /// As [`Sites::stored`].
    pub(crate) fn objects(&self, kind: Kind) -> Result<SiteObjects> {
        let stored = self.stored()?;
        let objects = stored.site.names(kind).into_iter();
        let objects = objects.filter_map(|name| stored.object(kind, name)).collect();
        Ok(SiteObjects { version: stored.version, objects })
    }

    /// One object.
    ///
    /// # Errors
    /// [`Error::Catalog`] if it does not exist; as [`Sites::stored`].
    pub(crate) fn object(&self, kind: Kind, name: &str) -> Result<SiteObject> {
        self.stored()?.object(kind, name).ok_or_else(|| declared::missing(kind, name))
    }

    /// All objects as a file.
    ///
    /// # Errors
    /// As [`Sites::stored`].
    pub(crate) fn export(&self) -> Result<SiteFile> {
        let stored = self.stored()?;
        Ok(SiteFile { version: stored.version, text: site::file::write(&stored.site) })
    }

    /// Creates or changes an object.
    ///
    /// # Errors
    /// [`Error::ChangedSince`], [`Error::Mistakes`]; [`Error::Catalog`] when it exists already, or not any more.
    pub(crate) fn put(
        &self,
        who: &str,
        (kind, name): (Kind, &str),
        new: &PutObject,
    ) -> Result<SiteChange> {
        self.change(who, new.dry_run, |stored| {
            stored.is_at(kind, name, new.version)?;
            let mut site = stored.site.clone();
            site.set(kind, name, &new.body).map_err(|error| mistake(error.to_string()))?;
            Ok(Wanted { site, text: None })
        })
    }

    /// Removes an object.
    ///
    /// # Errors
    /// [`Error::ChangedSince`], [`Error::Mistakes`] when another one needs it; [`Error::Catalog`] if it does not exist.
    pub(crate) fn remove(
        &self,
        who: &str,
        (kind, name): (Kind, &str),
        seen: &RemoveObject,
    ) -> Result<SiteChange> {
        self.change(who, seen.dry_run, |stored| {
            stored.is_at(kind, name, Some(seen.version))?;
            let mut site = stored.site.clone();
            site.remove(kind, name);
            Ok(Wanted { site, text: None })
        })
        .map_err(|error| needed(error, kind, name))
    }

    /// Makes the site what a file says.
    ///
    /// # Errors
    /// [`Error::ChangedSince`], [`Error::Mistakes`] with their lines; [`Error::Catalog`].
    pub(crate) fn apply(&self, who: &str, file: &ApplySite) -> Result<SiteChange> {
        let text = file.text.as_str();
        let Ok(wanted) = site::file::read(text) else { return Err(self.all_wrong_in(text)) };
        self.change(who, file.dry_run, |stored| {
            stored.is_whole_at(file.version)?;
            Ok(Wanted { site: wanted.clone(), text: Some(text) })
        })
    }

    /// All that is wrong with a file that does not fit together, also what is missing on the server.
    fn all_wrong_in(&self, text: &str) -> Error {
        let all = self.outside().map(|outside| site::file::read_with(text, &outside.known()));
        match all {
            Ok(read) => in_file(read.err().unwrap_or_default(), |_| true),
            Err(error) => error,
        }
    }

    /// Does what `make` makes of the site, or only says it. Another program that changes something at the same time
    /// does not matter: `make` sees the site again with that change.
    fn change<'a>(
        &self,
        who: &str,
        dry_run: bool,
        make: impl Fn(&Stored) -> Result<Wanted<'a>>,
    ) -> Result<SiteChange> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let stored = self.stored()?;
            let wanted = make(&stored)?;
            let mut warnings = self.check(&stored.site, &wanted)?;
            warnings.extend(promises::unkept(&wanted.site, self.clock.read()?.secs));
            let plan = Plan::between(&stored.site, &wanted.site);
            let mut snapshots = self.effects(&plan, &stored.site, &wanted.site)?;
            let mut version = stored.version;
            if !dry_run && !plan.is_empty() {
                let changes = changes::to_store(&plan, &wanted.site);
                let _alone = self.gate.enter();
                match self.catalog.change_objects(by(who), version, &changes) {
                    Err(catalog::Error::ChangedSince { .. }) if attempts < ATTEMPTS => continue,
                    done => version = done?,
                }
                // A node may have been permitted to forget one of them before the change was stored. Who cannot be told
                // what happens is told nothing.
                if !self.forgets.all().is_empty() {
                    let told = self.effects(&plan, &stored.site, &wanted.site);
                    snapshots = told.unwrap_or_default();
                }
            }
            let changes = changes::shown(plan);
            return Ok(SiteChange { version, dry_run, changes, warnings, snapshots });
        }
    }

    /// What a change does to the snapshots that exist, as far as the catalog knows them, and that no node may be
    /// forgetting at this moment.
    fn effects(&self, plan: &Plan, old: &Site, new: &Site) -> Result<Option<SnapshotEffects>> {
        let decides = |kind| matches!(kind, Kind::Retention | Kind::Policy | Kind::Hold);
        if !plan.changes.iter().any(|change| decides(change.kind)) {
            return Ok(None);
        }
        let (domains, now, gone) = (self.snapshots.all()?, self.clock.read()?, self.forgets.all());
        let left = |all: &'_ Arc<Vec<Facts>>| -> Arc<Vec<Facts>> {
            let is_left = |one: &&Facts| !gone.contains(&one.id);
            match all.iter().all(|one| is_left(&one)) {
                true => all.clone(),
                false => Arc::new(all.iter().filter(is_left).cloned().collect()),
            }
        };
        let domains: Vec<_> = domains.values().map(left).collect();
        let domains = domains.iter().map(|facts| facts.as_slice());
        effects((old, new), domains, now, &zone).map_err(|error| Error::Usage(error.to_string()))
    }

    /// The new site fits together by itself, and nothing that it needs of the server is missing that was not missing
    /// before. Returns what was missing before.
    fn check(&self, old: &Site, new: &Wanted<'_>) -> Result<Vec<Mistake>> {
        fits(new.site.check(&Known::default()))?;
        if site::file::write(&new.site).len() > FILE_BYTES_MAX {
            let message = format!(
                "all objects together would have more than {FILE_BYTES_MAX} bytes as a file"
            );
            return Err(mistake(message));
        }
        let outside = self.outside()?;
        let problems = new.site.check(&outside.known());
        if problems.is_empty() {
            return Ok(Vec::new());
        }
        let before = old.check(&outside.known());
        let (old, fresh): (Vec<_>, Vec<_>) =
            problems.into_iter().partition(|problem| before.contains(problem));
        if let Some(text) = new.text.filter(|_| !fresh.is_empty()) {
            let texts: BTreeSet<_> = fresh.iter().map(described).collect();
            if let Err(all) = site::file::read_with(text, &outside.known()) {
                return Err(in_file(all, |message| texts.contains(message)));
            }
        }
        fits(fresh)?;
        Ok(old.into_iter().map(of_problem).collect())
    }

    fn outside(&self) -> Result<Outside> {
        let nodes = self.catalog.nodes()?.into_iter().map(|node| node.name.to_string());
        let domains = self.catalog.domains()?.into_iter().map(|domain| domain.name.to_string());
        let servers = self.catalog.storage_servers()?.into_iter().filter(|server| !server.revoked);
        Ok(Outside {
            nodes: nodes.collect(),
            domains: domains.collect(),
            pools: self.pools.names()?.iter().map(ToString::to_string).collect(),
            storage_servers: servers.map(|server| server.name.to_string()).collect(),
        })
    }
}

fn fits(problems: Vec<Problem>) -> Result<()> {
    if problems.is_empty() {
        return Ok(());
    }
    Err(Error::Mistakes(problems.into_iter().map(of_problem).collect()))
}

/// A problem as a file's mistake has it.
fn described(problem: &Problem) -> String {
    format!("{} {}: {}", problem.kind, problem.name, problem.message)
}

fn of_problem(problem: Problem) -> Mistake {
    Mistake { message: described(&problem), fix: Some(problem.fix), ..Mistake::default() }
}

/// Why an object cannot be removed, for who does not think of it as declaring too little.
fn needed(error: Error, kind: Kind, name: &str) -> Error {
    let Error::Mistakes(mistakes) = error else { return error };
    let told = format!(": there is no {kind} '{name}'");
    let of_others = mistakes.into_iter().map(|mistake| match mistake.message.strip_suffix(&told) {
        Some(other) => Mistake {
            message: format!("the {kind} '{name}' is needed by the {other}"),
            fix: Some(format!("change that first: icecore server {}", command_of(other))),
            ..mistake
        },
        None => mistake,
    });
    Error::Mistakes(of_others.collect())
}

/// The command that changes the object `KIND NAME`.
fn command_of(object: &str) -> String {
    let (kind, name) = object.split_once(' ').unwrap_or((object, "NAME"));
    format!("{kind} change {name}")
}

/// The mistakes of a file whose messages `which` says yes to.
fn in_file(all: Vec<site::file::Mistake>, which: impl Fn(&str) -> bool) -> Error {
    let shown = all.into_iter().filter(|mistake| which(&mistake.message)).map(|mistake| Mistake {
        line: Some(mistake.line as u64),
        column: Some(mistake.column as u64),
        message: mistake.message,
        fix: Some(mistake.fix),
    });
    Error::Mistakes(shown.collect())
}

/// A mistake whose text says after a semicolon what to write instead.
fn mistake(text: String) -> Error {
    let (message, fix) = match text.split_once("; ") {
        Some((message, fix)) => (message.to_owned(), Some(fix.to_owned())),
        None => (text, None),
    };
    Error::Mistakes(vec![Mistake { message, fix, ..Mistake::default() }])
}

/// All mistakes in one line: the only one, or how many there are.
pub(crate) fn summary(mistakes: &[Mistake]) -> String {
    match mistakes {
        [one] => {
            let line = one.line.map_or_else(String::new, |line| format!("line {line}: "));
            format!("{line}{}", one.message)
        }
        all => format!("there are {} mistakes; nothing was changed", all.len()),
    }
}

#[cfg(test)]
mod tests;

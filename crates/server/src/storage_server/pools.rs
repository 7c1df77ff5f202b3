//! The pools of a storage server, and in which of them a domain lies.
//!
//! The control server knows of one place, the storage server. In which of its pools a domain lies is to be seen in the
//! pools alone: a new one goes to the pool with the most free bytes. While a pool cannot be looked into, a domain that
//! is in none of the others may lie there, and nobody makes it again elsewhere.

mod moves;

use api::Name;
use api::pools::PoolState;
pub(super) use moves::PlannedMove;
use parking_lot::Mutex;
use server_contract::access_control::Refusal;
use server_contract::folder::Folder;
use server_contract::pool::MAIN;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// A pool by its name; the first one has none.
type Pool = Option<Name>;

/// Where a domain lies.
pub(super) struct DomainPlace {
    pub(super) folder: PathBuf,
    /// Why nothing may be written there.
    pub(super) read_only: Option<Refusal>,
}

/// The pools of a storage server.
pub(super) struct Pools {
    pub(super) folder: Folder,
    /// Where domains will lie once somebody makes them.
    chosen: Mutex<BTreeMap<Name, Pool>>,
    /// Pools that were not there when they were looked at last.
    away: Mutex<BTreeSet<Pool>>,
    /// Domains that nobody may use while they are moved.
    closed: Mutex<BTreeSet<Name>>,
}

impl Pools {
    pub(super) fn new(folder: Folder) -> Self {
        let (chosen, away, closed) = Default::default();
        Self { folder, chosen, away, closed }
    }

    /// The directory of the domain in its pool.
    ///
    /// # Errors
    /// Those of [`Pools::place_of`].
    pub(super) fn folder_of(&self, domain: &Name) -> Result<PathBuf, Refusal> {
        self.place_of(domain).map(|place| place.folder)
    }

    /// Where the domain lies, or will lie. Where it may lie in a pool that is not there, in that one: whoever opens it
    /// is told.
    ///
    /// # Errors
    /// [`Refusal`] when it lies in two pools or is moved, when it may lie in one that is offline, and when it is new
    /// and no pool takes new domains.
    pub(super) fn place_of(&self, domain: &Name) -> Result<DomainPlace, Refusal> {
        if self.closed.lock().contains(domain) {
            return Err(is_moved(domain));
        }
        let all = self.all();
        let (offline, looked_at): (Vec<_>, Vec<_>) =
            all.iter().partition(|pool| self.state(pool) == PoolState::Offline);
        let (there, away): (Vec<_>, Vec<_>) =
            looked_at.into_iter().partition(|pool| self.is_there(pool));
        let lies_in = |pool: &&&Pool| self.folder.domain(pool.as_ref(), domain).exists();
        let mut found = there.iter().filter(lies_in);
        let pool = match (found.next(), found.next(), offline.first(), away.first()) {
            (Some(one), Some(other), ..) => return Err(self.in_two(domain, [one, other])),
            (Some(one), None, ..) => (*one).clone(),
            (None, _, Some(offline), _) => return Err(is_offline(offline, domain)),
            (None, _, None, Some(away)) => (*away).clone(),
            (None, _, None, None) => self.choose(&there, domain)?,
        };
        let read_only = (self.state(&pool) == PoolState::ReadOnly).then(|| is_read_only(&pool));
        Ok(DomainPlace { folder: self.folder.domain(pool.as_ref(), domain), read_only })
    }

    /// What it is used for. Where nobody knows it any more, for nothing.
    fn state(&self, pool: &Pool) -> PoolState {
        self.folder.pool_state(pool.as_ref()).unwrap_or_else(|error| {
            tracing::error!(%error, pool = name_of(pool), "the state of the pool cannot be read");
            PoolState::Offline
        })
    }

    /// The pool for a new domain: two that make it at once have to choose the same one.
    fn choose(&self, there: &[&Pool], domain: &Name) -> Result<Pool, Refusal> {
        let takes_new = |pool: &&&Pool| self.state(pool) == PoolState::Online;
        let online: Vec<_> = there.iter().filter(takes_new).copied().collect();
        let mut chosen = self.chosen.lock();
        if let Some(pool) = chosen.get(domain).filter(|pool| online.contains(pool)) {
            return Ok(pool.clone());
        }
        let pool = self.roomiest(&online).ok_or_else(none_takes_new)?.clone();
        chosen.insert(domain.clone(), pool.clone());
        Ok(pool)
    }

    /// The directories of all domains. What is no repository has no locks either.
    pub(super) fn folders(&self) -> Vec<PathBuf> {
        let there = self.all().into_iter().filter(|pool| self.is_there(pool));
        let domains = there.map(|pool| self.folder.pool(pool.as_ref()).join("domains"));
        let entries = domains.filter_map(|domains| std::fs::read_dir(domains).ok()).flatten();
        // What is being moved lies there, too, and is none.
        let is_domain = |path: &PathBuf| {
            path.file_name().is_some_and(|name| !name.as_encoded_bytes().starts_with(b"."))
        };
        entries.flatten().map(|entry| entry.path()).filter(is_domain).collect()
    }

    /// Free and all bytes of the pools that are there and take new domains; two on one file system count once.
    pub(super) fn room(&self) -> [u64; 2] {
        let mut devices = BTreeSet::new();
        let metadata = |pool: &Pool| std::fs::metadata(self.folder.pool(pool.as_ref())).ok();
        let device = |pool: &Pool| metadata(pool).map(|metadata| metadata.dev());
        let apart = self
            .taking()
            .into_iter()
            .filter(|pool| device(pool).is_none_or(|device| devices.insert(device)));
        let sum = |[free, total]: [u64; 2], pool: Pool| {
            let [more, size] = self.folder.room(pool.as_ref());
            let add = |sum: u64, part: Option<u64>| sum.saturating_add(part.unwrap_or(0));
            [add(free, more), add(total, size)]
        };
        apart.fold([0, 0], sum)
    }

    /// Whether a pool that takes new domains lies in a bucket.
    pub(super) fn has_bucket(&self) -> bool {
        self.taking().iter().any(|pool| self.folder.is_in_bucket(pool.as_ref()))
    }

    /// Pools that take new domains.
    fn taking(&self) -> Vec<Pool> {
        let takes = |pool: &Pool| self.state(pool) == PoolState::Online && self.is_there(pool);
        self.all().into_iter().filter(takes).collect()
    }

    /// The first one, then the further ones.
    fn all(&self) -> Vec<Pool> {
        let further = self.folder.further_pools().unwrap_or_default();
        [None].into_iter().chain(further.into_iter().map(Some)).collect()
    }

    /// Whether it can be looked into, and nobody else uses it. The log has it when that changes.
    fn is_there(&self, pool: &Pool) -> bool {
        let name = name_of(pool);
        match (self.usable(pool.as_ref()), &mut *self.away.lock()) {
            (Ok(()), away) => {
                if away.remove(pool) {
                    tracing::info!(pool = name, "the pool is there again");
                }
                true
            }
            (Err(why), away) => {
                if away.insert(pool.clone()) {
                    tracing::warn!(pool = name, why, "the pool cannot be used");
                }
                false
            }
        }
    }

    fn usable(&self, pool: Option<&Name>) -> Result<(), String> {
        self.folder.begin_pool(pool).map_err(|error| error.to_string())?;
        self.folder.verify_pool(pool).map_err(|error| error.to_string())
    }

    /// Pools that cannot be used, and why. Nobody looks for those that are offline.
    pub(super) fn faults(&self) -> Vec<String> {
        let is_used = |pool: &Pool| self.state(pool) != PoolState::Offline;
        let fault = |pool: Pool| {
            let why = self.usable(pool.as_ref()).err()?;
            Some(format!("the pool '{}' cannot be used: {why}", name_of(&pool)))
        };
        self.all().into_iter().filter(is_used).filter_map(fault).collect()
    }

    /// Of two with the same room the first one. One of which nobody knows the room, as in a bucket, comes last.
    fn roomiest<'a>(&self, pools: &[&'a Pool]) -> Option<&'a Pool> {
        let room = |pool: &Pool| {
            let pool = pool.as_ref();
            self.folder.room(pool)[0].filter(|_| self.folder.has_inodes(pool))
        };
        pools.iter().rev().copied().max_by_key(|pool| room(pool))
    }

    fn in_two(&self, domain: &Name, pools: [&Pool; 2]) -> Refusal {
        let moves_to = self.moves_to(domain);
        match pools.iter().any(|pool| moves_to.as_ref() == Some(*pool)) {
            true => is_moved(domain),
            false => self.twice(domain, pools),
        }
    }

    fn twice(&self, domain: &Name, pools: [&Pool; 2]) -> Refusal {
        let [one, other] = pools.map(|pool| self.folder.domain(pool.as_ref(), domain));
        let message = format!(
            "the domain '{domain}' lies in two pools of its storage server: {} and {}",
            one.display(),
            other.display()
        );
        Refusal::new(message, "Move the directory that is not the right one out of its pool.")
    }
}

/// The pool that people call so.
fn pool_of(name: &Name) -> Pool {
    (name.as_str() != MAIN).then(|| name.clone())
}

fn is_moved(domain: &Name) -> Refusal {
    Refusal::transient(format!(
        "the domain '{domain}' is being moved to another pool of its storage server"
    ))
}

fn name_of(pool: &Pool) -> &str {
    pool.as_ref().map_or(MAIN, Name::as_str)
}

fn online(pool: &Pool) -> String {
    format!("On the storage server: icecore storage pool state {} online", name_of(pool))
}

fn is_offline(pool: &Pool, domain: &Name) -> Refusal {
    let name = name_of(pool);
    let message = format!(
        "the pool '{name}' of the storage server is offline, and the domain '{domain}' is in no other one"
    );
    Refusal::new(message, online(pool))
}

fn is_read_only(pool: &Pool) -> Refusal {
    let message = format!("the pool '{}' of the storage server is read-only", name_of(pool));
    Refusal::new(message, online(pool))
}

fn none_takes_new() -> Refusal {
    let hint = "On the storage server: icecore storage pool list, and: icecore storage pool state NAME online";
    Refusal::new("no pool of the storage server takes new domains", hint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    struct Rig {
        place: tempfile::TempDir,
        pools: Pools,
    }

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    impl Rig {
        /// A storage server with the further pool `second`.
        fn new() -> Self {
            let place = tempfile::tempdir().unwrap();
            let folder = Folder::open_storage(&place.path().join("data"), &name("disk")).unwrap();
            let rig = Self { pools: Pools::new(folder), place };
            rig.add("second");
            rig
        }

        fn add(&self, pool: &str) {
            fs::create_dir(self.path(pool)).unwrap();
            self.pools.folder.add_pool(&name(pool), &self.path(pool), false).unwrap();
        }

        fn path(&self, name: &str) -> PathBuf {
            self.place.path().join(name)
        }

        /// In which of these pools a domain lies.
        fn has(&self, pool: &str, domain: &str) -> PathBuf {
            let folder = self.path(pool).join("domains").join(domain);
            fs::create_dir_all(&folder).unwrap();
            folder
        }

        fn of(&self, domain: &str) -> PathBuf {
            real(&self.pools.folder_of(&name(domain)).unwrap())
        }
    }

    /// With the link of the pool followed, whether the domain exists or not.
    fn real(folder: &Path) -> PathBuf {
        let [domains, last] = [folder.parent().unwrap(), folder].map(Path::to_owned);
        fs::canonicalize(domains).unwrap().join(last.file_name().unwrap())
    }

    #[test]
    fn a_domain_is_found_in_the_pool_in_which_it_lies() {
        let rig = Rig::new();
        let (first, second) = (rig.has("data/pool", "web"), rig.has("second", "db"));
        assert_eq!((rig.of("web"), rig.of("db")), (first.clone(), second.clone()));
        let mut folders: Vec<_> = rig.pools.folders().iter().map(|it| real(it)).collect();
        folders.sort();
        assert_eq!(folders, [first, second]);
    }

    #[test]
    fn whoever_makes_a_domain_at_the_same_time_is_sent_to_the_same_pool() {
        let rig = Rig::new();
        let first = rig.of("new");
        // Room changes all the time, and the choice does not.
        for _ in 0..20 {
            assert_eq!(rig.of("new"), first);
        }
    }

    #[test]
    fn a_domain_that_lies_in_two_pools_is_used_by_nobody() {
        let rig = Rig::new();
        rig.has("data/pool", "web");
        rig.has("second", "web");
        let refused = rig.pools.folder_of(&name("web")).unwrap_err();
        assert!(refused.message.contains("lies in two pools"), "{refused}");
        fs::remove_dir(rig.path("second/domains/web")).unwrap();
        assert_eq!(rig.of("web"), rig.path("data/pool/domains/web"));
    }

    #[test]
    fn while_a_pool_is_away_a_domain_that_is_nowhere_else_is_made_nowhere_else() {
        let rig = Rig::new();
        rig.has("data/pool", "web");
        rig.has("second", "db");
        fs::rename(rig.path("second"), rig.path("away")).unwrap();
        for (domain, is_there) in [("web", true), ("db", false), ("new", false)] {
            let folder = rig.pools.folder_of(&name(domain)).unwrap();
            let verified = server_contract::pool::verify(&folder);
            assert_eq!(verified.is_ok(), is_there, "{domain}: {}", folder.display());
        }
        fs::rename(rig.path("away"), rig.path("second")).unwrap();
        assert_eq!(rig.of("db"), rig.path("second/domains/db"));
    }

    #[test]
    fn pools_on_one_file_system_have_its_room_once() {
        let rig = Rig::new();
        let [_, total] = rig.pools.room();
        rig.add("third");
        assert_eq!(rig.pools.room()[1], total);
        assert!(total > 0);
    }

    #[test]
    fn a_state_says_what_a_pool_is_used_for() {
        let rig = Rig::new();
        let set = |pool: Option<&str>, state| {
            let pool = pool.map(name);
            rig.pools.folder.set_pool_state(pool.as_ref(), state).unwrap();
        };
        let refused = |domain: &str| match rig.pools.place_of(&name(domain)) {
            Ok(place) => place.read_only.map(|why| why.message).unwrap_or_default(),
            Err(why) => why.message,
        };
        rig.has("data/pool", "web");
        rig.has("second", "db");
        set(None, PoolState::Draining);
        assert_eq!(rig.of("new"), rig.path("second/domains/new"));
        assert_eq!((refused("web"), refused("db")), Default::default());
        set(Some("second"), PoolState::ReadOnly);
        assert!(refused("other").contains("no pool of the storage server takes new domains"));
        assert!(refused("db").contains("'second' of the storage server is read-only"));
        assert_eq!((rig.pools.room(), refused("web")), ([0, 0], String::new()));
        set(None, PoolState::Online);
        // It was chosen before it was read-only, and nothing lies there.
        assert_eq!(rig.of("new"), rig.path("data/pool/domains/new"));
        set(Some("second"), PoolState::Offline);
        for domain in ["db", "another"] {
            assert!(refused(domain).contains("'second' of the storage server is offline"));
        }
        assert_eq!(refused("web"), "");
        let states = rig.path("data/pool-states");
        fs::write(states.join("second"), "onl").unwrap();
        assert!(refused("db").contains("offline"), "nobody knows what it was");
        fs::remove_file(states.join("second")).unwrap();
        assert_eq!(rig.of("db"), rig.path("second/domains/db"));
    }

    #[test]
    fn a_move_goes_where_it_may_and_whoever_comes_meanwhile_waits() {
        let rig = Rig::new();
        let (web, second, main) = (name("web"), name("second"), name("main"));
        let plan = |to: &Name| rig.pools.plan_move(&web, to).map_err(|why| why.message + &why.hint);
        let refused = |to: &Name, why: &str| {
            let found = plan(to).err().unwrap();
            assert!(found.contains(why), "{found}");
        };
        let set =
            |pool: Option<&Name>, state| rig.pools.folder.set_pool_state(pool, state).unwrap();
        refused(&second, "nothing is stored");
        let here = rig.has("data/pool", "web");
        assert!(plan(&main).is_ok_and(|planned| planned.is_none()), "it lies there");
        refused(&name("third"), "icecore storage pool list");
        for (pool, state, why) in [
            (None, PoolState::ReadOnly, "icecore storage pool state main draining"),
            (Some(&second), PoolState::Draining, "icecore storage pool state second online"),
            (Some(&second), PoolState::Offline, "icecore storage pool state second online"),
        ] {
            set(pool, state);
            refused(&second, why);
            set(pool, PoolState::Online);
        }
        set(None, PoolState::Draining);
        let planned = plan(&second).unwrap().unwrap();
        assert!(!planned.is_switched && real(&planned.from) == here);
        assert_eq!(real(&planned.to), rig.path("second/domains/web"));
        rig.pools.close(&web);
        let waits = |why: &str| {
            let refusal = rig.pools.place_of(&web).err().unwrap();
            assert!(refusal.is_transient && refusal.message.contains(why), "{refusal}");
        };
        waits("is being moved");
        rig.pools.reopen(&web);
        assert_eq!(rig.of("web"), here);
        // Killed when the copy had got the name of the domain.
        rig.pools.note_move(&planned).unwrap();
        let there = rig.has("second", "web");
        waits("is being moved");
        refused(&main, "lies in two pools");
        let again = plan(&second).unwrap().unwrap();
        assert!(again.is_switched && real(&again.from) == here);
        rig.pools.move_has_ended(&again, false);
        waits("is being moved");
        fs::rename(rig.path("second"), rig.path("away")).unwrap();
        rig.pools.move_has_ended(&again, false);
        fs::rename(rig.path("away"), rig.path("second")).unwrap();
        waits("is being moved");
        fs::rename(&here, here.with_file_name(".web.removed")).unwrap();
        assert!(plan(&second).unwrap().unwrap().is_switched, "what is left has to go");
        fs::remove_dir(here.with_file_name(".web.removed")).unwrap();
        rig.pools.move_has_ended(&again, false);
        assert!(!rig.path("data/moves/web").exists());
        assert_eq!(rig.of("web"), there);
        assert_eq!(rig.pools.folders().len(), 1);
        // Without a note nobody knows which is the right one.
        rig.has("data/pool", "web");
        let refusal = rig.pools.place_of(&web).err().unwrap();
        assert!(!refusal.is_transient && refusal.message.contains("two pools"), "{refusal}");
        refused(&second, "lies in two pools");
    }

    #[test]
    fn only_a_pool_without_domains_or_one_that_is_lost_is_removed() {
        let rig = Rig::new();
        let remove = |is_lost| match rig.pools.folder.remove_pool(&name("second"), is_lost) {
            Ok(()) => String::new(),
            Err(why) => why.to_string(),
        };
        rig.has("second", "db");
        assert!(remove(false).contains("it has domains"));
        assert!(remove(true).contains("it can be reached, so it is not lost"));
        fs::rename(rig.path("second"), rig.path("away")).unwrap();
        assert_ne!(remove(false), "");
        let may_lie = rig.pools.folder_of(&name("new")).unwrap();
        assert!(may_lie.ends_with("pools/second/domains/new"), "{}", may_lie.display());
        rig.pools.folder.set_pool_state(Some(&name("second")), PoolState::Draining).unwrap();
        assert_eq!(remove(true), "");
        assert_eq!(rig.of("new"), rig.path("data/pool/domains/new"));
        assert!(remove(true).contains("there is no such pool"));
        // Another one of this name has nothing of it.
        rig.add("second");
        assert_eq!(rig.pools.folder.pool_state(Some(&name("second"))).unwrap(), PoolState::Online);
        assert_eq!(remove(false), "");
    }
}

//! The pools of a storage server, and in which of them a domain lies.
//!
//! The control server knows of one place, the storage server. In which of its pools a domain lies is to be seen in the
//! pools alone: a new one goes to the pool with the most free bytes. While a pool cannot be looked into, a domain that
//! is in none of the others may lie there, and nobody makes it again elsewhere.

use api::Name;
use parking_lot::Mutex;
use server_contract::access_control::Refusal;
use server_contract::folder::Folder;
use server_contract::pool::MAIN;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// A pool by its name; the first one has none.
type Pool = Option<Name>;

/// The pools of a storage server.
pub(super) struct Pools {
    pub(super) folder: Folder,
    /// Where domains will lie once somebody makes them.
    chosen: Mutex<BTreeMap<Name, Pool>>,
    /// Pools that were not there when they were looked at last.
    away: Mutex<BTreeSet<Pool>>,
}

impl Pools {
    pub(super) fn new(folder: Folder) -> Self {
        Self { folder, chosen: Mutex::default(), away: Mutex::default() }
    }

    /// The directory of the domain in its pool. Where it may lie in a pool that is not there, the directory in that
    /// one: whoever opens it is told.
    ///
    /// # Errors
    /// [`Refusal`] when it lies in two pools.
    pub(super) fn folder_of(&self, domain: &Name) -> Result<PathBuf, Refusal> {
        let all = self.all();
        let (there, away): (Vec<_>, Vec<_>) = all.iter().partition(|pool| self.is_there(pool));
        let lies_in = |pool: &&&Pool| self.folder.domain(pool.as_ref(), domain).exists();
        let mut found = there.iter().filter(lies_in);
        let pool = match (found.next(), found.next(), away.first()) {
            (Some(one), Some(other), _) => return Err(self.twice(domain, [one, other])),
            (Some(one), None, _) => (*one).clone(),
            (None, _, Some(away)) => (*away).clone(),
            (None, _, None) => self.choose(&there, domain),
        };
        Ok(self.folder.domain(pool.as_ref(), domain))
    }

    /// The pool for a new domain: two that make it at once have to choose the same one.
    fn choose(&self, there: &[&Pool], domain: &Name) -> Pool {
        let mut chosen = self.chosen.lock();
        if let Some(pool) = chosen.get(domain).filter(|pool| there.contains(pool)) {
            return pool.clone();
        }
        let pool = self.roomiest(there);
        chosen.insert(domain.clone(), pool.clone());
        pool
    }

    /// The directories of all domains. What is no repository has no locks either.
    pub(super) fn folders(&self) -> Vec<PathBuf> {
        let there = self.all().into_iter().filter(|pool| self.is_there(pool));
        let domains = there.map(|pool| self.folder.pool(pool.as_ref()).join("domains"));
        let entries = domains.filter_map(|domains| std::fs::read_dir(domains).ok()).flatten();
        entries.flatten().map(|entry| entry.path()).collect()
    }

    /// Free and all bytes of the pools that are there; two on one file system count once.
    pub(super) fn room(&self) -> [u64; 2] {
        let mut devices = BTreeSet::new();
        let metadata = |pool: &Pool| std::fs::metadata(self.folder.pool(pool.as_ref())).ok();
        let device = |pool: &Pool| metadata(pool).map(|metadata| metadata.dev());
        let there = self.all().into_iter().filter(|pool| self.is_there(pool));
        let apart = there.filter(|pool| device(pool).is_none_or(|device| devices.insert(device)));
        let sum = |[free, total]: [u64; 2], pool: Pool| {
            let [more, size] = self.folder.room(pool.as_ref());
            let add = |sum: u64, part: Option<u64>| sum.saturating_add(part.unwrap_or(0));
            [add(free, more), add(total, size)]
        };
        apart.fold([0, 0], sum)
    }

    /// The first one, then the further ones.
    fn all(&self) -> Vec<Pool> {
        let further = self.folder.further_pools().unwrap_or_default();
        [None].into_iter().chain(further.into_iter().map(Some)).collect()
    }

    /// Whether it can be looked into, and nobody else uses it. The log has it when that changes.
    fn is_there(&self, pool: &Pool) -> bool {
        let name = pool.as_ref().map_or(MAIN, Name::as_str);
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

    /// Of two with the same room the first one.
    fn roomiest(&self, pools: &[&Pool]) -> Pool {
        let room = |pool: &&Pool| {
            let pool = pool.as_ref();
            self.folder.room(pool)[0].filter(|_| self.folder.has_inodes(pool))
        };
        let roomiest = pools.iter().rev().filter_map(|pool| Some((room(pool)?, pool)));
        roomiest.max_by_key(|(free, _)| *free).and_then(|(_, pool)| (*pool).clone())
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
}

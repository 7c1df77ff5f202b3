//! What a restore needs of a bucket with cold storage classes: the plan with times and prices, and the request to bring
//! it back.

mod plan;
mod prices;
mod tiers;

use crate::codes::Code;
use crate::context::Context;
use crate::failure::{Failure, Result, quoted};
use crate::{escape, place, units};
use object_storage::{ObjectState, ObjectStorage, Readable};
use pipeline::restore::RestoreNeeds;
use plan::Plan;
use prices::Price;
use repository::container;
use repository::storage::StorageResult;
use serde::Serialize;
use std::time::Duration;
use tiers::TierArg;

/// Containers that are asked for at once.
const AT_ONCE: usize = 1000;
/// Failures that are told.
const TOLD_MAX: u64 = 5;
/// So often a bucket is asked whether something is there that takes minutes at least.
const ASKED_EVERY: Duration = Duration::from_secs(60);
/// In tests: every so many milliseconds.
const EVERY_VARIABLE: &str = "ICECORE_S3_POLL_MILLIS";

/// What is to be done about containers in cold storage classes.
#[derive(clap::Args, Debug)]
pub(crate) struct Cold {
    /// Restore nothing, and show which containers of a bucket a restore needs, in which storage classes they lie, how
    /// long it takes to bring them back, and what that costs.
    #[arg(long)]
    plan: bool,
    /// Ask the bucket to bring back from its archive what the restore needs. Without --wait, restore nothing.
    #[arg(long, conflicts_with = "plan")]
    bring_back: bool,
    /// How fast the bucket brings it back; faster costs more.
    #[arg(long, value_enum, default_value = "standard", requires = "bring_back")]
    tier: TierArg,
    /// For how many days it stays readable. It takes space in the standard class meanwhile.
    #[arg(long, value_name = "DAYS", default_value_t = 7, requires = "bring_back", value_parser = clap::value_parser!(u32).range(1..=365))]
    days: u32,
    /// With --bring-back: also restore, and wait for each container that is not there yet.
    #[arg(long, requires = "bring_back")]
    wait: bool,
    /// With --plan: what your storage charges for a GB (2^30 bytes) that is brought back, of one tier or of all.
    #[arg(long = "price-gb", value_name = "[TIER=]PRICE", requires = "plan", value_parser = prices::parse)]
    price_gb: Vec<Price>,
    /// With --plan: what it charges for 1,000 requests to bring something back.
    #[arg(long = "price-request", value_name = "[TIER=]PRICE", requires = "plan", value_parser = prices::parse)]
    price_request: Vec<Price>,
}

/// The containers of a restore.
struct Containers {
    bucket: ObjectStorage,
    states: Vec<(String, ObjectState)>,
}

#[derive(Serialize)]
struct Asked {
    snapshot_id: String,
    containers: u64,
    asked: u64,
    asked_bytes: u64,
    under_way: u64,
    readable: u64,
    failed: u64,
    tier: &'static str,
    days: u32,
}

impl Cold {
    /// Whether the command ends without a restore.
    pub(crate) fn ends_early(&self) -> bool {
        self.plan || self.bring_back && !self.wait
    }

    /// Whether something is to be known before a restore.
    pub(crate) fn is_asked(&self) -> bool {
        self.plan || self.bring_back
    }

    /// Before the repository is opened: whether it lies in a bucket, and how it is read.
    pub(crate) fn prepare(&self, context: &Context) -> Result<()> {
        if !self.is_asked() {
            return Ok(());
        }
        if context.node()?.is_some() {
            return Err(on_a_server());
        }
        place::refuse_directories(&context.repo()?)?;
        if self.wait {
            let millis = std::env::var(EVERY_VARIABLE).ok().and_then(|text| text.parse().ok());
            context.wait_for_archived(millis.map_or(ASKED_EVERY, Duration::from_millis));
        }
        Ok(())
    }

    /// Shows the plan, or asks for what it needs. `words` name the snapshot and what is chosen of it, for what to type.
    pub(crate) fn run(
        &self,
        context: &Context,
        snapshot: (String, &str),
        needs: &RestoreNeeds,
    ) -> Result<Code> {
        let containers = Containers::of(context, needs)?;
        if self.plan {
            let plan = Plan::new(needs, &containers.states, (&self.price_gb, &self.price_request));
            return plan.show(context, snapshot);
        }
        self.bring_back(context, snapshot, &containers)
    }

    fn bring_back(
        &self,
        context: &Context,
        (snapshot_id, words): (String, &str),
        containers: &Containers,
    ) -> Result<Code> {
        let (archived, others): (Vec<_>, Vec<_>) =
            containers.states.iter().cloned().partition(|(_, it)| it.readable == Readable::No);
        self.refuse_tier(&archived)?;
        let mut asked = Asked {
            snapshot_id,
            containers: containers.states.len() as u64,
            asked: 0,
            asked_bytes: 0,
            under_way: others.iter().filter(|(_, it)| it.readable == Readable::Soon).count() as u64,
            readable: others.iter().filter(|(_, it)| it.is_readable()).count() as u64,
            failed: 0,
            tier: self.tier.name(),
            days: self.days,
        };
        for some in archived.chunks(AT_ONCE) {
            if context.is_cancelled() {
                return Err(Failure::from(pipeline::Error::Cancelled));
            }
            let speed = (self.tier.of_storage(), self.days);
            for ((_, state), answer) in some.iter().zip(containers.bucket.bring_back(some, speed)) {
                asked.note(context, state, answer);
            }
        }
        self.tell(context, &asked, &archived, words)?;
        let code = if asked.failed > 0 { Code::Partial } else { Code::Complete };
        // A restore that follows has a summary of its own.
        match self.wait && code == Code::Complete {
            true => Ok(code),
            false => context.out.summary(code, &asked),
        }
    }

    /// Before anything is asked for, which costs.
    fn refuse_tier(&self, archived: &[(String, ObjectState)]) -> Result<()> {
        let tier = self.tier.of_storage();
        let Some((_, state)) = archived.iter().find(|(_, it)| tier.takes(&it.class).is_none())
        else {
            return Ok(());
        };
        let message = format!("{} gives nothing back with --tier {}", state.class, self.tier);
        Err(Failure::usage(message).hint("Choose --tier standard or --tier bulk."))
    }

    /// The answer first; then what else is true; then what to type.
    fn tell(
        &self,
        context: &Context,
        asked: &Asked,
        archived: &[(String, ObjectState)],
        words: &str,
    ) -> Result<()> {
        let many = |count| units::many(count, "container");
        let mut lines = vec![match asked.asked {
            0 if archived.is_empty() => "Nothing has to be brought back".to_owned(),
            count => format!(
                "Asked for {} ({}), to stay for {}",
                many(count),
                units::bytes(asked.asked_bytes),
                units::many(self.days.into(), "day")
            ),
        }];
        let takes = tiers::times(self.tier.of_storage(), archived.iter().map(|(_, it)| &*it.class));
        if asked.asked > 0 {
            lines.push(format!("  they come     {takes}, as AWS publishes for {}", asked.tier));
        }
        if asked.under_way > 0 {
            lines.push(format!("  on their way  {}, asked for before", many(asked.under_way)));
        }
        if asked.readable > 0 {
            lines.push(format!("  readable now  {}", many(asked.readable)));
        }
        if asked.failed > 0 {
            lines.push(format!("  not asked     {}: run it again", many(asked.failed)));
        }
        if !self.wait {
            lines.push(format!("Then: icecore restore {words} --target DIR"));
        }
        lines.iter().try_for_each(|line| context.out.line(line))
    }
}

impl Asked {
    fn note(&mut self, context: &Context, state: &ObjectState, answer: StorageResult<()>) {
        match answer {
            Ok(()) => {
                self.asked += 1;
                self.asked_bytes += state.bytes;
            }
            Err(error) => {
                self.failed += 1;
                if self.failed <= TOLD_MAX {
                    context.out.note(&escape::text(&error.to_string()));
                }
            }
        }
    }
}

impl Containers {
    /// What the bucket says of each container that a restore needs.
    fn of(context: &Context, needs: &RestoreNeeds) -> Result<Self> {
        let bucket = place::open_object_storage(&context.repo()?, &context.out)?;
        let names: Vec<_> = needs.containers.keys().map(|it| container::name(*it)).collect();
        let mut states = Vec::with_capacity(names.len());
        for some in names.chunks(AT_ONCE) {
            if context.is_cancelled() {
                return Err(Failure::from(pipeline::Error::Cancelled));
            }
            for (name, state) in some.iter().zip(bucket.states(some)) {
                let at =
                    |error| Failure::from(store::Error::Storage(error)).at(&context.location());
                states.push((name.clone(), state.map_err(at)?));
            }
        }
        Ok(Self { bucket, states })
    }
}

fn on_a_server() -> Failure {
    Failure::usage("the repository is on a server, and only whoever has the credentials of its bucket can ask for that")
        .hint("On the server: icecore restore SNAPSHOT --plan --repo s3://BUCKET/PREFIX/domains/DOMAIN, with the key that `icecore server key DOMAIN` prints")
}

/// The snapshot and what is chosen of it, to be typed again.
pub(crate) fn words(snapshot: &std::ffi::OsStr, chosen: [(&str, &[String]); 2]) -> String {
    let patterns = chosen.into_iter().flat_map(|(flag, patterns)| {
        patterns.iter().map(move |pattern| format!(" {flag} {}", quoted(pattern)))
    });
    let snapshot = quoted(&snapshot.to_string_lossy());
    std::iter::once(snapshot).chain(patterns).collect()
}

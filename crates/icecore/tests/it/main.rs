//! The real binary on real files: what a user types and what comes of it.

mod advice;
mod children;
mod choosing;
mod exit_codes;
mod figures;
mod forgetting;
mod full_disk;
mod governed;
mod looking;
mod machine;
mod measuring;
mod names;
mod ordered;
mod output;
mod parity;
mod passwords;
mod profiles;
mod renewing;
mod restoring;
mod round_trip;
mod stopping;
mod storing;
mod streams;
mod trusting;
mod unheard;
mod wishes;

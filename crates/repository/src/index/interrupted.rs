//! What interrupted sessions stored: containers that reclaim leaves alone for a while, so that the next run finds what
//! is in them. No clock decides how long, but the number of reclaims.
//!
//! This is thrift and no protection: whatever a session is told of is protected by its pins, whatever a snapshot needs
//! by its marks. So the list may be coarse, and be lost.

use format::wire::Reader;
use ids::ContainerNo;
use std::collections::{BTreeMap, BTreeSet};

/// So many reclaims leave a container alone after a session last stored something in it, or was told of it.
pub(crate) const RECLAIMS_MAX: u64 = 3;
/// Ranges that the list has at most: 24 KiB of the state file. Beyond, those that lie closest become one.
const RANGES_MAX: usize = 1 << 10;

/// Neighboring containers of interrupted sessions, or of sessions that run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    first: u64,
    last: u64,
    /// Reclaims that have left them alone.
    reclaims: u64,
}

/// The containers that interrupted sessions wrote, in ascending ranges that do not overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Interrupted(Vec<Range>);

impl Interrupted {
    /// Whether it lists nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether `container` is listed.
    pub(crate) fn has(&self, container: ContainerNo) -> bool {
        self.reclaims_of(container).is_some()
    }

    /// How many reclaims have left `container` alone, if it is listed.
    pub(crate) fn reclaims_of(&self, container: ContainerNo) -> Option<u64> {
        let at = self.0.partition_point(|range| range.last < container.0);
        let range = self.0.get(at).filter(|range| range.first <= container.0);
        range.map(|range| range.reclaims)
    }

    /// Lists `containers`, as if no reclaim had seen them yet.
    pub(crate) fn keep(&mut self, containers: &BTreeSet<ContainerNo>) {
        self.put(containers, 0);
    }

    /// What is listed of `times` has been left alone so many times more.
    pub(crate) fn age_more(&mut self, times: &BTreeMap<ContainerNo, u64>) {
        let mut by_age: BTreeMap<u64, BTreeSet<ContainerNo>> = BTreeMap::new();
        for (number, more) in times.iter().filter(|(_, more)| **more > 0) {
            let age = self.reclaims_of(*number).map(|reclaims| reclaims.saturating_add(*more));
            age.map(|age| by_age.entry(age).or_default().insert(*number));
        }
        by_age.iter().for_each(|(age, containers)| self.put(containers, *age));
    }

    /// Lists `containers` as left alone by so many reclaims, unless that is often enough.
    fn put(&mut self, containers: &BTreeSet<ContainerNo>, reclaims: u64) {
        self.remove(containers);
        if reclaims < RECLAIMS_MAX {
            self.0.extend(ranges(containers).into_iter().map(|it| Range { reclaims, ..it }));
            self.tidy();
        }
    }

    /// Of what is listed, that in `containers` counts as if no reclaim had seen it yet.
    pub(crate) fn renew(&mut self, containers: impl Iterator<Item = ContainerNo>) {
        let listed: BTreeSet<_> = containers.filter(|number| self.has(*number)).collect();
        self.keep(&listed);
    }

    /// Lists `containers` no more.
    pub(crate) fn remove(&mut self, containers: &BTreeSet<ContainerNo>) {
        for gone in ranges(containers) {
            self.0 = self.0.iter().flat_map(|range| without(*range, gone)).collect();
        }
    }

    /// A reclaim has left all of them alone: those drop out that had this often enough.
    pub(crate) fn age(&mut self) {
        self.0.iter_mut().for_each(|range| range.reclaims += 1);
        self.0.retain(|range| range.reclaims < RECLAIMS_MAX);
    }

    /// Sorts, joins neighbors, and keeps the list short.
    fn tidy(&mut self) {
        self.0.sort_unstable_by_key(|range| range.first);
        let joins = |one: &Range, next: &Range| {
            one.last.saturating_add(1) == next.first && one.reclaims == next.reclaims
        };
        self.join_where(joins);
        if self.0.len() > RANGES_MAX {
            let mut gaps: Vec<u64> =
                self.0.windows(2).map(|two| two[1].first - two[0].last).collect();
            gaps.sort_unstable();
            let widest = gaps[self.0.len() - RANGES_MAX - 1];
            self.join_where(|one, next| next.first - one.last <= widest);
        }
    }

    fn join_where(&mut self, joins: impl Fn(&Range, &Range) -> bool) {
        let mut joined: Vec<Range> = Vec::with_capacity(self.0.len());
        for range in &self.0 {
            match joined.last_mut() {
                Some(last) if joins(last, range) => {
                    last.last = range.last;
                    last.reclaims = last.reclaims.min(range.reclaims);
                }
                _ => joined.push(*range),
            }
        }
        self.0 = joined;
    }

    /// Appends the list to `out`: the number of ranges, then each.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.0.len() as u64).to_le_bytes());
        for range in &self.0 {
            for value in [range.first, range.last, range.reclaims] {
                out.extend_from_slice(&value.to_le_bytes());
            }
        }
    }

    /// What [`Interrupted::encode`] wrote; `None` when it could not have.
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Option<Self> {
        let count = usize::try_from(reader.u64().ok()?).ok()?;
        if count > RANGES_MAX {
            return None;
        }
        let mut found = Vec::with_capacity(count);
        for _ in 0..count {
            let [first, last, reclaims] = [reader.u64(), reader.u64(), reader.u64()];
            found.push(Range { first: first.ok()?, last: last.ok()?, reclaims: reclaims.ok()? });
        }
        let is_sound = |range: &Range| range.first <= range.last && range.reclaims < RECLAIMS_MAX;
        let ascends = found.is_sorted_by(|one, next| one.last < next.first);
        (ascends && found.iter().all(is_sound)).then_some(Self(found))
    }
}

/// The numbers in `containers` as ranges that no reclaim has seen.
fn ranges(containers: &BTreeSet<ContainerNo>) -> Vec<Range> {
    let mut found: Vec<Range> = Vec::new();
    for number in containers {
        match found.last_mut() {
            Some(last) if last.last.saturating_add(1) == number.0 => last.last = number.0,
            _ => found.push(Range { first: number.0, last: number.0, reclaims: 0 }),
        }
    }
    found
}

/// What is left of `range` without `gone`.
fn without(range: Range, gone: Range) -> impl Iterator<Item = Range> {
    let before = Range { last: range.last.min(gone.first.saturating_sub(1)), ..range };
    let after = Range { first: range.first.max(gone.last.saturating_add(1)), ..range };
    let is_apart = gone.last < range.first || range.last < gone.first;
    let parts = match is_apart {
        true => [Some(range), None],
        false => [
            (range.first < gone.first).then_some(before),
            (gone.last < range.last).then_some(after),
        ],
    };
    parts.into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use testkit::Random;

    fn numbers(numbers: impl IntoIterator<Item = u64>) -> BTreeSet<ContainerNo> {
        numbers.into_iter().map(ContainerNo).collect()
    }

    fn listed(list: &Interrupted) -> Vec<u64> {
        list.0.iter().flat_map(|range| range.first..=range.last).collect()
    }

    #[test]
    fn what_a_session_used_again_stays_for_as_many_reclaims_more() {
        let mut list = Interrupted::default();
        list.keep(&numbers([1, 2, 3, 7]));
        for _ in 1..RECLAIMS_MAX {
            list.age();
        }
        list.renew([2, 9].into_iter().map(ContainerNo));
        list.age();
        assert_eq!(listed(&list), [2]);
        assert!(list.has(ContainerNo(2)) && !list.has(ContainerNo(1)) && !list.has(ContainerNo(9)));
    }

    #[test]
    fn it_lists_what_a_map_would_and_is_read_back() {
        let mut random = Random::new(1);
        for _ in 0..500 {
            let (mut list, mut model) = (Interrupted::default(), BTreeMap::new());
            for _ in 0..12 {
                let some = numbers((0..random.below(9)).map(|_| 1 + random.below(24)));
                match random.below(5) {
                    4 => {
                        let times = some.iter().map(|number| (*number, random.below(3)));
                        let times: BTreeMap<_, _> = times.collect();
                        list.age_more(&times);
                        for (number, reclaims) in &mut model {
                            *reclaims += times.get(number).copied().unwrap_or(0);
                        }
                        model.retain(|_, reclaims| *reclaims < RECLAIMS_MAX);
                    }
                    0 => {
                        list.remove(&some);
                        model.retain(|number, _| !some.contains(number));
                    }
                    1 => {
                        list.age();
                        model.values_mut().for_each(|reclaims| *reclaims += 1);
                        model.retain(|_, reclaims| *reclaims < RECLAIMS_MAX);
                    }
                    2 => {
                        list.renew(some.iter().copied());
                        let listed = model.iter_mut().filter(|(number, _)| some.contains(number));
                        listed.for_each(|(_, reclaims)| *reclaims = 0);
                    }
                    _ => {
                        list.keep(&some);
                        model.extend(some.iter().map(|number| (*number, 0)));
                    }
                }
                let expected: Vec<_> = model.keys().map(|number| number.0).collect();
                assert_eq!(listed(&list), expected);
                let mut bytes = Vec::new();
                list.encode(&mut bytes);
                assert_eq!(
                    Interrupted::decode(&mut Reader::new(&bytes, "list")),
                    Some(list.clone())
                );
            }
        }
    }

    #[test]
    fn a_list_that_grows_long_lists_more_and_never_less() {
        let mut list = Interrupted::default();
        let scattered = numbers((0..3 * RANGES_MAX as u64).map(|at| 3 * at + at / 100));
        list.keep(&scattered);
        assert!(list.0.len() <= RANGES_MAX);
        assert!(scattered.iter().all(|number| list.has(*number)));
    }

    #[test]
    fn ranges_that_overlap_or_never_end_are_refused() {
        for ranges in
            [[(1, 3, 0), (3, 4, 0)], [(5, 4, 0), (6, 6, 0)], [(1, 1, RECLAIMS_MAX), (2, 2, 0)]]
        {
            let ranges = ranges.map(|(first, last, reclaims)| Range { first, last, reclaims });
            let mut bytes = Vec::new();
            Interrupted(ranges.to_vec()).encode(&mut bytes);
            assert_eq!(Interrupted::decode(&mut Reader::new(&bytes, "list")), None);
        }
        let too_many = (RANGES_MAX as u64 + 1).to_le_bytes();
        assert_eq!(Interrupted::decode(&mut Reader::new(&too_many, "list")), None);
    }
}

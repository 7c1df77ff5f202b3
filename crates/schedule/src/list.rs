//! Lists of words in files: one word stands for a list of one.

use serde::de::{Error, SeqAccess, Visitor};
use serde::ser::SerializeSeq;
use serde::{Deserializer, Serializer};
use std::fmt::{self, Display};
use std::marker::PhantomData;
use std::str::FromStr;

/// More than this many words of a list are a mistake.
pub const WORDS_MAX: usize = 100;

pub(crate) fn serialize<T: Display, S: Serializer>(all: &[T], to: S) -> Result<S::Ok, S::Error> {
    if let [one] = all {
        return to.collect_str(one);
    }
    let mut list = to.serialize_seq(Some(all.len()))?;
    all.iter().try_for_each(|one| list.serialize_element(&one.to_string()))?;
    list.end()
}

pub(crate) fn deserialize<'de, T, D>(from: D) -> Result<Vec<T>, D::Error>
where
    T: FromStr,
    T::Err: Display,
    D: Deserializer<'de>,
{
    from.deserialize_any(Words(PhantomData))
}

struct Words<T>(PhantomData<T>);

impl<'de, T> Visitor<'de> for Words<T>
where
    T: FromStr,
    T::Err: Display,
{
    type Value = Vec<T>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a text in quotes, or a list of them")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Vec<T>, E> {
        Ok(vec![text.parse().map_err(E::custom)?])
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
        let mut all = Vec::new();
        while let Some(text) = list.next_element::<String>()? {
            if all.len() == WORDS_MAX {
                return Err(A::Error::custom(format!("a list may have {WORDS_MAX} words")));
            }
            all.push(text.parse().map_err(A::Error::custom)?);
        }
        Ok(all)
    }
}

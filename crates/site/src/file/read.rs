//! From text to a site.

use super::{FILE_BYTES_MAX, Mistake, place};
use crate::check::{Known, PROBLEMS_MAX};
use crate::near::near;
use crate::{Kind, OBJECTS_MAX, Site, check_name};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

/// The site that a text describes.
///
/// # Errors
/// All mistakes, sorted by line; at most [`PROBLEMS_MAX`].
pub fn read(text: &str) -> Result<Site, Vec<Mistake>> {
    read_with(text, &Known::default())
}

/// The same; what it refers to must exist.
///
/// # Errors
/// All mistakes, sorted by line; at most [`PROBLEMS_MAX`].
pub fn read_with(text: &str, known: &Known<'_>) -> Result<Site, Vec<Mistake>> {
    if text.len() > FILE_BYTES_MAX {
        let message = format!("the file has {} bytes, more than {FILE_BYTES_MAX}", text.len());
        return Err(vec![Mistake::at(text, 0, message, "divide the site".to_owned())]);
    }
    let (file, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        let all = errors.iter().map(|error| Mistake::of(text, error, "", 0..0));
        return Err(sorted(all.collect()));
    }
    let mut reader = Reader { text, site: Site::default(), mistakes: Vec::new(), objects: 0 };
    reader.file(file.get_ref());
    if reader.mistakes.is_empty() {
        reader.problems(file.get_ref(), known);
    }
    if reader.mistakes.is_empty() { Ok(reader.site) } else { Err(sorted(reader.mistakes)) }
}

fn sorted(mut mistakes: Vec<Mistake>) -> Vec<Mistake> {
    mistakes.sort();
    mistakes.dedup();
    mistakes.truncate(PROBLEMS_MAX);
    mistakes
}

struct Reader<'a> {
    text: &'a str,
    site: Site,
    mistakes: Vec<Mistake>,
    objects: usize,
}

impl Reader<'_> {
    fn note(&mut self, byte: usize, message: String, fix: String) {
        if self.mistakes.len() < PROBLEMS_MAX {
            self.mistakes.push(Mistake::at(self.text, byte, message, fix));
        }
    }

    fn file(&mut self, file: &DeTable<'_>) {
        for (key, value) in file {
            match (Kind::from_name(key.get_ref()), value.get_ref()) {
                (Some(kind), DeValue::Table(names)) => self.kind(kind, names),
                (Some(kind), _) => {
                    let message = format!("'{kind}' is not a value");
                    self.note(key.span().start, message, format!("write a table: [{kind}.NAME]"));
                }
                (None, _) => self.unknown_kind(key),
            }
        }
    }

    fn unknown_kind(&mut self, key: &Spanned<std::borrow::Cow<'_, str>>) {
        let all = Kind::ALL.map(Kind::name);
        let fix = match near(key.get_ref(), all) {
            Some(near) => format!("did you mean [{near}.NAME]?"),
            None => format!("use one of {}", all.join(", ")),
        };
        self.note(key.span().start, format!("there is no kind '{}'", key.get_ref()), fix);
    }

    fn kind(&mut self, kind: Kind, names: &DeTable<'_>) {
        match kind {
            Kind::Unit => self.site.units = self.objects(kind, names),
            Kind::Retention => self.site.retentions = self.objects(kind, names),
            Kind::Schedule => self.site.schedules = self.objects(kind, names),
            Kind::Node => self.site.nodes = self.objects(kind, names),
            Kind::Group => self.site.groups = self.objects(kind, names),
            Kind::Policy => self.site.policies = self.objects(kind, names),
            Kind::Hold => self.site.holds = self.objects(kind, names),
            Kind::Upkeep => self.site.upkeeps = self.objects(kind, names),
            Kind::Quota => self.site.quotas = self.objects(kind, names),
        }
    }

    fn objects<T: DeserializeOwned>(
        &mut self,
        kind: Kind,
        names: &DeTable<'_>,
    ) -> BTreeMap<String, T> {
        let mut all = BTreeMap::new();
        for (name, value) in names {
            self.objects += 1;
            if self.objects == OBJECTS_MAX + 1 {
                let message = format!("a site has at most {OBJECTS_MAX} objects");
                self.note(name.span().start, message, "remove some".to_owned());
            }
            if self.objects > OBJECTS_MAX {
                break;
            }
            if let Some(object) = self.object(kind, name, value) {
                all.insert(name.get_ref().clone().into_owned(), object);
            }
        }
        all
    }

    fn object<T: DeserializeOwned>(
        &mut self,
        kind: Kind,
        name: &Spanned<std::borrow::Cow<'_, str>>,
        value: &Spanned<DeValue<'_>>,
    ) -> Option<T> {
        if let Err(error) = check_name(name.get_ref()) {
            let text = error.to_string();
            let (message, fix) = text.split_once("; ").unwrap_or((&text, ""));
            self.note(name.span().start, message.to_owned(), fix.to_owned());
        }
        if value.get_ref().as_table().is_none() {
            let message = format!("{kind} {} is not a value", name.get_ref());
            self.note(name.span().start, message, format!("write a table: [{kind}.NAME]"));
            return None;
        }
        let what = format!("{kind} {}: ", name.get_ref());
        match T::deserialize(ValueDeserializer::from(value.clone())) {
            Ok(object) => Some(object),
            Err(error) => {
                if self.mistakes.len() < PROBLEMS_MAX {
                    self.mistakes.push(Mistake::of(self.text, &error, &what, name.span()));
                }
                None
            }
        }
    }

    fn problems(&mut self, file: &DeTable<'_>, known: &Known<'_>) {
        for problem in self.site.check(known) {
            let message = format!("{} {}: {}", problem.kind, problem.name, problem.message);
            self.note(place::of(file, &problem), message, problem.fix);
        }
    }
}

//! Objects as one types them: TOML of a file, or keys one by one.

use crate::failure::{Failure, Result};
use ::site::Kind;
use serde_json::{Map, Value};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Most bytes of a file that are read; the server refuses less.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// What an object is, or what differs from now on.
#[derive(clap::Args, Debug)]
pub(crate) struct Given {
    /// Set a key to a value in TOML; a plain word needs no quotes. A table replaces all keys of the one before;
    /// `labels.role=web` sets one of them. Can be repeated.
    #[arg(short, long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Take all keys from this file in TOML, such as `show` prints; `-` for standard input.
    #[arg(long = "from", value_name = "FILE")]
    from: Option<PathBuf>,
}

impl Given {
    /// Whether anything was given.
    pub(super) fn is_any(&self) -> bool {
        !self.set.is_empty() || self.from.is_some()
    }

    /// The body that comes of `old`, for the object `[KIND.NAME]`.
    pub(super) fn on(&self, object: (Kind, &str), old: Value) -> Result<Value> {
        let mut body = match &self.from {
            Some(file) => inner(object, from_file(file)?),
            None => old,
        };
        for pair in &self.set {
            let named = named(pair)?;
            set(&mut body, assignment(pair)?, &named);
        }
        Ok(body)
    }
}

/// The text of a file that a person wrote.
pub(super) fn text(file: &Path) -> Result<String> {
    let mut bytes = Vec::new();
    let read = if file.as_os_str() == "-" {
        std::io::stdin().lock().take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)
    } else {
        std::fs::File::open(file)
            .and_then(|open| open.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes))
    };
    read.map_err(|error| Failure::file(file, &error))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(Failure::usage(format!("{} is larger than 4 MiB", file.display())));
    }
    String::from_utf8(bytes)
        .map_err(|_| Failure::usage(format!("{} is not UTF-8 text", file.display())))
}

fn from_file(file: &Path) -> Result<Value> {
    let text = text(file)?;
    let table: toml::Table = toml::from_str(&text)
        .map_err(|error| Failure::usage(format!("{}: {error}", file.display())))?;
    Ok(json(toml::Value::Table(table)))
}

/// The keys of the table `[KIND.NAME]`, if the file has this one only.
fn inner((kind, name): (Kind, &str), mut file: Value) -> Value {
    let length = |it: &Value| it.as_object().map(Map::len);
    let is_alone = length(&file) == Some(1) && file.get(kind.name()).and_then(length) == Some(1);
    let body = file.get_mut(kind.name()).and_then(|names| names.get_mut(name));
    match body.filter(|body| is_alone && body.is_object()) {
        Some(body) => body.take(),
        None => file,
    }
}

/// `KEY=VALUE` as a table with this key; dots lead into inner tables.
fn assignment(pair: &str) -> Result<Value> {
    let bad = || {
        Failure::usage(format!("'{pair}' sets no key"))
            .hint("Write KEY=VALUE, such as max_jobs=8, unit=fast or 'paths=[\"/etc\", \"/home\"]'")
    };
    let (key, value) = pair.split_once('=').ok_or_else(bad)?;
    let parse = |value: &str| toml::from_str::<toml::Table>(&format!("{key} = {value}")).ok();
    // A word that is no value in TOML is a text.
    let quoted = || toml::Value::String(value.trim().to_owned()).to_string();
    let table = parse(value).or_else(|| parse(&quoted())).ok_or_else(bad)?;
    Ok(json(toml::Value::Table(table)))
}

/// What the key of `KEY=VALUE` names: a table for each dot, and a number at its end.
fn named(pair: &str) -> Result<Value> {
    let key = pair.split_once('=').map_or(pair, |(key, _)| key);
    assignment(&format!("{key}=0"))
}

/// Removes a key; whether it was set.
pub(super) fn unset(body: &mut Value, key: &str) -> Result<bool> {
    let mut at = assignment(&format!("{key}=0"))?;
    let mut place = body;
    loop {
        let Value::Object(keys) = at else { return Ok(false) };
        let Some((key, inner)) = keys.into_iter().next() else { return Ok(false) };
        let Value::Object(here) = place else { return Ok(false) };
        if !inner.is_object() {
            return Ok(here.remove(&key).is_some());
        }
        let Some(next) = here.get_mut(&key) else { return Ok(false) };
        (at, place) = (inner, next);
    }
}

/// Sets the values of `new`. Of the tables that are `named`, the other keys stay; a value that is a table takes the
/// place of what was there.
fn set(old: &mut Value, new: Value, named: &Value) {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) if named.is_object() => {
            for (key, value) in new {
                let named = named.get(&key).unwrap_or(&Value::Null);
                set(old.entry(key).or_insert(Value::Null), value, named);
            }
        }
        (old, new) => *old = new,
    }
}

/// TOML as JSON; times are texts, as objects have them.
fn json(value: toml::Value) -> Value {
    match value {
        toml::Value::String(text) => Value::String(text),
        toml::Value::Integer(number) => number.into(),
        toml::Value::Float(number) => number.into(),
        toml::Value::Boolean(flag) => flag.into(),
        toml::Value::Datetime(time) => Value::String(time.to_string()),
        toml::Value::Array(all) => all.into_iter().map(json).collect(),
        toml::Value::Table(table) => {
            table.into_iter().map(|(key, value)| (key, json(value))).collect::<Map<_, _>>().into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_toml_and_words_are_texts() {
        let set = |pair: &str| assignment(pair).unwrap();
        assert_eq!(set("max_jobs=8"), json!({"max_jobs": 8}));
        assert_eq!(set("unit=fast"), json!({"unit": "fast"}));
        assert_eq!(set("promise=26h"), json!({"promise": "26h"}));
        assert_eq!(set("reason=in court"), json!({"reason": "in court"}));
        assert_eq!(set(r#"paths=["/etc", "/a=b"]"#), json!({"paths": ["/etc", "/a=b"]}));
        assert_eq!(set("until=2026-12-31"), json!({"until": "2026-12-31"}));
        assert_eq!(set("labels.role=db"), json!({"labels": {"role": "db"}}));
        assert_eq!(set("labels.\"a.b\"=c"), json!({"labels": {"a.b": "c"}}));
        for bad in ["", "unit", "=x", "a b=c", "a..b=c"] {
            assert!(assignment(bad).is_err(), "{bad}");
        }
        assert_eq!(set("a=1\nb=2"), json!({"a": 1, "b": 2}), "as in a file");
    }

    #[test]
    fn a_change_keeps_what_it_does_not_name() {
        let old = json!({"labels": {"role": "db", "site": "x"}, "unit": "a"});
        let given = Given { set: vec!["labels.role=web".into(), "priority=9".into()], from: None };
        let mut body = given.on((Kind::Node, "a"), old).unwrap();
        let expected = json!({"labels": {"role": "web", "site": "x"}, "unit": "a", "priority": 9});
        assert_eq!(body, expected);
        assert!(unset(&mut body, "labels.site").unwrap());
        assert!(unset(&mut body, "unit").unwrap());
        for gone in ["unit", "labels.site", "no.such", "priority.x"] {
            assert!(!unset(&mut body, gone).unwrap(), "{gone}");
        }
        assert_eq!(body, json!({"labels": {"role": "web"}, "priority": 9}));
        assert!(unset(&mut body, "a b").is_err());
    }

    #[test]
    fn a_table_takes_the_place_of_the_table_before() {
        let old = json!({"labels": {"lab": "y"}, "hooks": {"dump": {"pre": "a", "post": "b"}}});
        let on = |set: &[&str]| {
            let set = set.iter().map(|pair| (*pair).to_owned()).collect();
            Given { set, from: None }.on((Kind::Policy, "lab"), old.clone()).unwrap()
        };
        let web = json!({"role": "web"});
        assert_eq!(on(&["labels={role = \"web\"}"])["labels"], web);
        let all = on(&["hooks.dump={pre = \"c\"}"]);
        assert_eq!(
            (&all["hooks"], &all["labels"]),
            (&json!({"dump": {"pre": "c"}}), &old["labels"])
        );
        assert_eq!(on(&["hooks.new.pre=c"])["hooks"]["dump"], old["hooks"]["dump"]);
        assert_eq!(on(&["hooks={}"])["hooks"], json!({}));
        let both = on(&["labels={role = \"web\"}", "labels.site=x"]);
        assert_eq!(both["labels"], json!({"role": "web", "site": "x"}));
        assert_eq!(on(&["labels={role = \"web\"}\nunit=\"a\""])["labels"], web, "as in a file");
        // Nothing was a table there.
        assert_eq!(on(&["unit.a=1"])["unit"], json!({"a": 1}));
    }

    #[test]
    fn a_file_has_the_keys_or_the_whole_table() {
        let keys = json!({"max_jobs": 8});
        let of = |file: &Value| inner((Kind::Unit, "fast"), file.clone());
        assert_eq!(of(&keys), keys);
        assert_eq!(of(&json!({"unit": {"fast": keys}})), keys);
        for other in [
            json!({"unit": {"slow": keys}}),
            json!({"unit": {"fast": keys, "slow": keys}}),
            json!({"unit": {"fast": keys}, "node": {}}),
            json!({"unit": "fast"}),
        ] {
            assert_eq!(of(&other), other);
        }
    }
}

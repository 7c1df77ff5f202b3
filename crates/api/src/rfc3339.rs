//! Times as JSON has them: RFC 3339 in UTC, `2026-11-20T14:00:00Z`. In the program they are seconds since 1970.

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serializer};

/// For `#[serde(with = …)]`: the text.
pub(crate) fn serialize<S: Serializer>(secs: &i64, serializer: S) -> Result<S::Ok, S::Error> {
    // Beyond what calendars reach: a file may claim any time.
    match Timestamp::from_second(*secs) {
        Ok(stamp) => serializer.collect_str(&stamp),
        Err(_) => serializer.collect_str(&format_args!("@{secs}")),
    }
}

/// The seconds.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
    parse(&text).map_err(serde::de::Error::custom)
}

fn parse(text: &str) -> Result<i64, String> {
    if let Some(secs) = text.strip_prefix('@')
        && let Ok(secs) = secs.parse()
    {
        return Ok(secs);
    }
    let stamp: Timestamp = text.parse().map_err(|_| {
        let shown: String = text.chars().take(40).collect();
        format!("'{}' is no time: write 2026-11-20T14:00:00Z", shown.escape_default())
    })?;
    Ok(stamp.as_second())
}

/// The same for times that may be missing.
pub(crate) mod option {
    use serde::{Deserialize, Deserializer, Serializer};

    #[derive(Deserialize)]
    struct Time(#[serde(with = "super")] i64);

    pub(crate) fn serialize<S: Serializer>(
        secs: &Option<i64>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match secs {
            Some(secs) => super::serialize(secs, serializer),
            None => serializer.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<i64>, D::Error> {
        Ok(Option::<Time>::deserialize(deserializer)?.map(|time| time.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Serialize;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Times {
        #[serde(with = "super")]
        at: i64,
        #[serde(default, with = "super::option", skip_serializing_if = "Option::is_none")]
        until: Option<i64>,
    }

    #[test]
    fn times_are_text_in_utc_and_read_back() {
        let times = [
            (0, None, r#"{"at":"1970-01-01T00:00:00Z"}"#),
            (
                1_795_356_000,
                Some(-1),
                r#"{"at":"2026-11-22T14:00:00Z","until":"1969-12-31T23:59:59Z"}"#,
            ),
            (i64::MAX, None, r#"{"at":"@9223372036854775807"}"#),
        ];
        for (at, until, text) in times {
            let times = Times { at, until };
            assert_eq!(serde_json::to_string(&times).unwrap(), text);
            assert_eq!(serde_json::from_str::<Times>(text).unwrap(), times);
        }
        let other = r#"{"at":"2026-11-22T15:00:00.75+01:00"}"#;
        assert_eq!(serde_json::from_str::<Times>(other).unwrap().at, 1_795_356_000);
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in
            ["0", r#""""#, r#""today""#, r#""2026-11-22""#, r#""2026-11-22T14:00:00""#, r#""@x""#]
        {
            assert!(
                serde_json::from_str::<Times>(&format!(r#"{{"at":{text}}}"#)).is_err(),
                "{text}"
            );
        }
    }
}

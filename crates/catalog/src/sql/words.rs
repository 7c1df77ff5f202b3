//! Names, roles and states as text in columns: as JSON writes them, and checked when they are read.

use super::{FromValue, ToValue, Value};
use crate::{Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value as JsonValue;

/// A value whose JSON is a string.
pub(crate) struct Word<T>(pub(crate) T);

impl<T: Serialize> ToValue for Word<T> {
    fn to_value(&self) -> Result<Value> {
        match serde_json::to_value(&self.0) {
            Ok(JsonValue::String(text)) => text.to_value(),
            Ok(JsonValue::Null) => Ok(Value::Null),
            Ok(_) => Err(Error::database("what should be stored is no word")),
            Err(error) => Err(Error::database(error)),
        }
    }
}

impl<T: DeserializeOwned> FromValue for Word<T> {
    fn from_value(value: &Value) -> Result<Self> {
        let text = JsonValue::String(String::from_value(value)?);
        serde_json::from_value(text).map(Self).map_err(Error::database)
    }
}

/// Anything, as JSON text.
pub(crate) struct Json<T>(pub(crate) T);

impl<T: Serialize> ToValue for Json<T> {
    fn to_value(&self) -> Result<Value> {
        serde_json::to_string(&self.0).map_err(Error::database)?.to_value()
    }
}

impl<T: DeserializeOwned> FromValue for Json<T> {
    fn from_value(value: &Value) -> Result<Self> {
        serde_json::from_str(&String::from_value(value)?).map(Self).map_err(Error::database)
    }
}

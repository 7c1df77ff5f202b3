//! Values of columns, and how they become those of the program.

use crate::{Error, Result};
use std::borrow::Cow;

/// A value of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    /// None.
    Null,
    /// A number; yes and no are 1 and 0.
    Int(i64),
    /// Text, without the character NUL.
    Text(String),
    /// Bytes.
    Blob(Vec<u8>),
}

/// What can be stored.
pub(crate) trait ToValue {
    /// As a value of a column.
    fn to_value(&self) -> Result<Value>;
}

/// What can be read.
pub(crate) trait FromValue: Sized {
    /// From the value of a column.
    fn from_value(value: &Value) -> Result<Self>;
}

/// A row of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row(Vec<Value>);

impl Row {
    pub(crate) fn new(values: Vec<Value>) -> Self {
        Self(values)
    }

    /// The value of column `at`, from 0.
    pub(crate) fn get<T: FromValue>(&self, at: usize) -> Result<T> {
        let value = self.0.get(at).ok_or_else(|| mismatch("a further column", &Value::Null))?;
        T::from_value(value)
    }

    /// All values.
    pub(crate) fn values(&self) -> &[Value] {
        &self.0
    }
}

/// Text as both databases can hold it: PostgreSQL has no NUL in texts, and a node may send one.
pub(crate) fn storable(text: &str) -> Cow<'_, str> {
    if text.contains('\0') { text.replace('\0', "\u{fffd}").into() } else { text.into() }
}

fn mismatch(wanted: &str, found: &Value) -> Error {
    let found = match found {
        Value::Null => "nothing",
        Value::Int(_) => "a number",
        Value::Text(_) => "text",
        Value::Blob(_) => "bytes",
    };
    Error::database(format!("a column holds {found} instead of {wanted}"))
}

impl<T: ToValue + ?Sized> ToValue for &T {
    fn to_value(&self) -> Result<Value> {
        (**self).to_value()
    }
}

impl<T: ToValue> ToValue for Option<T> {
    fn to_value(&self) -> Result<Value> {
        self.as_ref().map_or(Ok(Value::Null), ToValue::to_value)
    }
}

impl ToValue for str {
    fn to_value(&self) -> Result<Value> {
        Ok(Value::Text(storable(self).into_owned()))
    }
}

impl ToValue for String {
    fn to_value(&self) -> Result<Value> {
        self.as_str().to_value()
    }
}

impl ToValue for [u8; 32] {
    fn to_value(&self) -> Result<Value> {
        Ok(Value::Blob(self.to_vec()))
    }
}

impl ToValue for Vec<u8> {
    fn to_value(&self) -> Result<Value> {
        Ok(Value::Blob(self.clone()))
    }
}

impl<T: FromValue> FromValue for Option<T> {
    fn from_value(value: &Value) -> Result<Self> {
        if *value == Value::Null { Ok(None) } else { T::from_value(value).map(Some) }
    }
}

impl FromValue for String {
    fn from_value(value: &Value) -> Result<Self> {
        match value {
            Value::Text(text) => Ok(text.clone()),
            other => Err(mismatch("text", other)),
        }
    }
}

impl FromValue for Vec<u8> {
    fn from_value(value: &Value) -> Result<Self> {
        match value {
            Value::Blob(bytes) => Ok(bytes.clone()),
            other => Err(mismatch("bytes", other)),
        }
    }
}

impl FromValue for [u8; 32] {
    fn from_value(value: &Value) -> Result<Self> {
        match value {
            Value::Blob(bytes) if bytes.len() == 32 => {
                let mut hash = [0; 32];
                hash.copy_from_slice(bytes);
                Ok(hash)
            }
            other => Err(mismatch("32 bytes", other)),
        }
    }
}

/// Numbers: those that a column cannot hold become the highest that it can, and none is read that does not fit.
macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl ToValue for $number {
            fn to_value(&self) -> Result<Value> {
                Ok(Value::Int(i64::try_from(*self).unwrap_or(i64::MAX)))
            }
        }

        impl FromValue for $number {
            fn from_value(value: &Value) -> Result<Self> {
                match value {
                    Value::Int(number) => Self::try_from(*number)
                        .map_err(|_| mismatch(stringify!($number), value)),
                    other => Err(mismatch("a number", other)),
                }
            }
        }
    )*};
}
numbers!(i64, u64, u32, u16, u8);

impl ToValue for bool {
    fn to_value(&self) -> Result<Value> {
        Ok(Value::Int(i64::from(*self)))
    }
}

impl FromValue for bool {
    fn from_value(value: &Value) -> Result<Self> {
        i64::from_value(value).map(|number| number != 0)
    }
}

impl ToValue for Value {
    fn to_value(&self) -> Result<Value> {
        Ok(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_an_error_and_not_another_value() {
        assert!(u8::from_value(&Value::Int(256)).is_err());
        assert!(u64::from_value(&Value::Int(-1)).is_err());
        assert!(String::from_value(&Value::Null).is_err());
        assert!(<[u8; 32]>::from_value(&Value::Blob(vec![0; 31])).is_err());
        assert!(Row::new(vec![]).get::<i64>(0).is_err());
        assert_eq!(Option::<u8>::from_value(&Value::Null).unwrap(), None);
        assert_eq!(u64::MAX.to_value().unwrap(), Value::Int(i64::MAX));
    }

    #[test]
    fn a_text_with_a_nul_is_stored_with_a_mark_in_its_place() {
        assert_eq!("a\0b".to_value().unwrap(), Value::Text("a\u{fffd}b".into()));
        assert_eq!(storable("ab"), "ab");
    }
}

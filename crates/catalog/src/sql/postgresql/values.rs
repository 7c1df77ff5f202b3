//! Values as PostgreSQL sends and takes them.

use super::{Row, Value};
use crate::{Error, Result};
use bytes::BytesMut;
use postgres::types::{IsNull, ToSql, Type, to_sql_checked};

type Written = std::result::Result<IsNull, Box<dyn std::error::Error + Sync + Send>>;

impl ToSql for Value {
    fn to_sql(&self, kind: &Type, out: &mut BytesMut) -> Written {
        match self {
            Self::Null => Ok(IsNull::Yes),
            Self::Int(number) if *kind == Type::INT8 => number.to_sql(kind, out),
            Self::Int(number) if *kind == Type::INT4 => i32::try_from(*number)?.to_sql(kind, out),
            Self::Text(text) if <&str as ToSql>::accepts(kind) => text.as_str().to_sql(kind, out),
            Self::Blob(bytes) if *kind == Type::BYTEA => bytes.as_slice().to_sql(kind, out),
            _ => Err(format!("a value of another type for a parameter of type {kind}").into()),
        }
    }

    /// What does not fit is an error when it is written: `NULL` fits everywhere.
    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

/// A row of a result. Yes and no are 1 and 0.
pub(super) fn read(row: &postgres::Row) -> Result<Row> {
    (0..row.len()).map(|at| value(row, at)).collect::<Result<_>>().map(Row::new)
}

fn value(row: &postgres::Row, at: usize) -> Result<Value> {
    let kind = row.columns()[at].type_();
    let value = match *kind {
        Type::INT8 => row.try_get::<_, Option<i64>>(at).map(|number| number.map(Value::Int)),
        Type::INT4 => {
            let number = row.try_get::<_, Option<i32>>(at);
            number.map(|number| number.map(|number| Value::Int(number.into())))
        }
        Type::BOOL => {
            let yes = row.try_get::<_, Option<bool>>(at);
            yes.map(|yes| yes.map(|yes| Value::Int(yes.into())))
        }
        Type::TEXT | Type::VARCHAR | Type::NAME => {
            row.try_get::<_, Option<String>>(at).map(|text| text.map(Value::Text))
        }
        Type::BYTEA => row.try_get::<_, Option<Vec<u8>>>(at).map(|bytes| bytes.map(Value::Blob)),
        _ => return Err(Error::database(format!("a column has the type {kind}"))),
    };
    let value = value.map_err(|error| Error::database(format!("a column: {error}")))?;
    Ok(value.unwrap_or(Value::Null))
}

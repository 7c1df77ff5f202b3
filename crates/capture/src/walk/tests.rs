//! Tests of the whole walk.

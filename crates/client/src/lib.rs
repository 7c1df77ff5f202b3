//! Pipelines: backup, restore, forget, reports.

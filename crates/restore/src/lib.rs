//! Writes trees back through directory handles.

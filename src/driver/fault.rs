//! Driver decorator with scripted failures.

//! sentinel-backends

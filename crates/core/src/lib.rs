//! sentinel-core

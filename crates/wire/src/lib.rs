//! sentinel-wire

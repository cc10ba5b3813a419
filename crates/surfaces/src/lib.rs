//! sentinel-surfaces

//! Giving pages back to the kernel behind a moving offset.

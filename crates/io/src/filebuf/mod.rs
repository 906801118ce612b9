//! A buffered stream over one descriptor that never calls the kernel more often than necessary.

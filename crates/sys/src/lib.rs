//! The unsafe room of fdd.
//!
//! Everything that needs `unsafe` and is not part of the shared-memory pipe lives here, each block with its reason, behind
//! safe functions. No policy, no text, nothing of dd.
#![warn(missing_docs)]
#![allow(unsafe_code)] // This crate exists to hold it.

pub mod cachectl;
pub mod clone;
pub mod device;
pub mod jobserver;
pub mod locale;
pub mod memory;
pub mod pipe;
pub mod retry;
pub mod shared;
pub mod signal;
pub mod simd;
pub mod start;
pub mod thread;
pub mod uring;

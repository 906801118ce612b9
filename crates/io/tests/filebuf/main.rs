//! The buffered stream: against a plain `Vec` with a cursor, over scripted descriptors that cut and fail, and on real
//! files, pipes and sockets.

mod buffer;
mod calls;
mod faults;
mod model;
#[cfg(not(miri))]
mod real;
mod scripted;

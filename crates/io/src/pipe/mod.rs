//! A byte pipe in memory with any number of readers and writers.
//!
//! Between the threads of a process ([`Options::threads`]), between processes ([`Options::memfd`], [`Options::create`]), and,
//! for exactly one producer and one consumer, without a lock ([`spsc`]). Beside it [`Tokens`](tokens::Tokens), which limit how
//! much is done at once.
//!
//! ```
//! use std::io::{Read, Write};
//!
//! let (mut writer, mut reader) = fdd_io::pipe::Options::new(1 << 16).threads()?;
//! let thread = std::thread::spawn(move || writer.write_all(b"one piece"));
//! let mut text = String::new();
//! reader.read_to_string(&mut text)?; // Until the last writer is gone.
//! assert_eq!(text, "one piece");
//! # thread.join().unwrap()?;
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # What it promises
//! - Bytes come out in the order in which they went in. A write of at most [`ATOMIC`] bytes is one piece: no other write comes
//!   in between, and it is there wholly or not at all. A longer one may be cut by others.
//! - What is written wakes one reader, and what is read one writer; no wake-up is lost.
//! - Readers see the end when the last writer is gone, writers get `BrokenPipe` when the last reader is gone. Before the first
//!   end of the other side has come, they wait. A further end opens the pipe again.
//! - The capacity is fixed.
//!
//! Between processes, whoever is killed, at whatever instruction, holds the others up for less than a second:
//! - A dead writer's call of at most `ATOMIC` bytes is there wholly or not at all; of a longer one a beginning is there.
//! - A dead reader loses at most the one piece it had taken.
//! - The rest of what others wrote is intact and in order.
//!
//! An end belongs to the process that made it. A forked child cannot use its parent's (every call is an error); it attaches its
//! own.
//!
//! # What it does not do
//! It has no descriptor to splice, and `poll` sees it only through [`events`](shared::Descriptors::events). It protects
//! from peers that die, not from peers that write nonsense into the memory: they cannot make this process touch other memory,
//! but they can give it wrong bytes, or stop inside the lock and keep everyone waiting. A peer that is stopped (SIGSTOP) while
//! it holds the lock keeps the others waiting until it goes on or is killed, also those that wait for a limited time only; one that
//! is stopped while it has the turn does so in fair mode alone. Nothing is lost by it.
//!
//! # Two ways of handing over
//! By default whoever comes is served, also before those who wait (throughput); a process that takes back what it just put is
//! not switched away from. [`fair`](Options::fair) serves in the order of coming, [`overtakes`](Options::overtakes) nearly so for a
//! fraction of the cost. What a token costs, in nanoseconds, measured on two processors of an AMD EPYC (Linux 6.18) by
//! `cargo run --release -p fdd-bench -- seeds --case tokens --quick`:
//!
//! | processes | kernel's pipe | throughput | `overtakes(64)` | `fair` |
//! |---|---|---|---|---|
//! | 2 | 1294 | 128 | 151 | 261 |
//! | 8 | 1218 | 81 | 366 | 17048 |
//! | 64 | 1393 | 172 | 844 | 18417 |
//!
//! With more than two processes `fair` is slower than the kernel's pipe, which is not fair itself: it serves whoever comes first
//! (a process got a value of another's in about half of the cases). Strictly in order, each value is for a process that sleeps, and
//! half of them bring a second one that has to be passed on too.

#[cfg(not(any(loom, shuttle)))]
mod end;
#[cfg(not(any(loom, shuttle)))]
mod local;
#[cfg(test)]
#[cfg_attr(any(loom, shuttle), allow(dead_code, unused_imports, reason = "each model uses a part"))]
mod model;
#[cfg_attr(any(loom, shuttle), allow(dead_code, unused_imports, reason = "a model uses a part"))]
mod ring;
#[cfg(not(any(loom, shuttle)))]
pub mod shared;
#[cfg(not(any(loom, shuttle)))]
mod single;
#[cfg_attr(any(loom, shuttle), allow(dead_code, unused_imports, reason = "a model uses a part"))]
mod state;
#[cfg_attr(any(loom, shuttle), allow(dead_code, unused_imports, reason = "a model uses a part"))]
mod sync;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
#[cfg(not(any(loom, shuttle)))]
pub mod tokens;

#[cfg(not(any(loom, shuttle)))]
pub use many::{Filled, Options, Reader, Reserved, Writer};
#[cfg(not(any(loom, shuttle)))]
pub use single::{SpscReader, SpscWriter, spsc};

/// A write of at most this many bytes is one piece.
#[doc(alias = "PIPE_BUF")]
pub const ATOMIC: usize = 4096;

/// How much one claim takes at most: enough that the lock does not matter, little enough that the other side can begin.
#[cfg(not(any(loom, shuttle)))]
fn chunk(capacity: u64) -> usize {
    usize::try_from(capacity / 4).unwrap_or(usize::MAX).clamp(ATOMIC, 256 << 10)
}

/// The methods that every pair of ends has, whatever memory it lies in.
#[cfg(not(any(loom, shuttle)))]
macro_rules! ends {
    ($(#[$writer_doc:meta])* $writer:ident, $(#[$reader_doc:meta])* $reader:ident, $place:ty) => {
        $(#[$writer_doc])*
        ///
        /// As [`std::io::Write`] it waits until all is written; it returns less only when the last reader left in between.
        #[derive(Debug)]
        pub struct $writer($crate::pipe::end::End<$place>);

        impl $writer {
            /// Writes what there is space for now: at most [`ATOMIC`](crate::pipe::ATOMIC) bytes wholly or not at all.
            ///
            /// # Errors
            /// `WouldBlock` without space, `BrokenPipe` when the last reader is gone.
            pub fn try_write(&mut self, from: &[u8]) -> std::io::Result<usize> {
                self.0.write(from, $crate::pipe::state::Patience::None)
            }

            /// Writes, waiting for space at most this long. Returns how much was written, which may be less.
            ///
            /// # Errors
            /// `TimedOut` when nothing was, `BrokenPipe` when the last reader is gone.
            pub fn write_timeout(&mut self, from: &[u8], at_most: std::time::Duration) -> std::io::Result<usize> {
                self.0.write(from, $crate::pipe::state::Patience::at_most(at_most))
            }

            /// A further writing end of the same pipe.
            ///
            /// # Errors
            /// `QuotaExceeded` when the pipe has as many ends as it was made for.
            pub fn another(&self) -> std::io::Result<$writer> {
                Ok($writer($crate::pipe::end::End::writer(&self.0.core)?))
            }

            /// A reading end of the same pipe.
            ///
            /// # Errors
            /// As for [`another`](Self::another).
            pub fn reader(&self) -> std::io::Result<$reader> {
                Ok($reader($crate::pipe::end::End::reader(&self.0.core)?))
            }
        }

        impl std::io::Write for $writer {
            #[inline]
            fn write(&mut self, from: &[u8]) -> std::io::Result<usize> {
                self.0.write(from, $crate::pipe::state::Patience::Endless)
            }

            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }

        $(#[$reader_doc])*
        ///
        /// As [`std::io::Read`] it waits until there is something, and returns 0 when the last writer is gone.
        #[derive(Debug)]
        pub struct $reader($crate::pipe::end::End<$place>);

        impl $reader {
            /// Reads what there is now: 0 when the last writer is gone.
            ///
            /// # Errors
            /// `WouldBlock` when there is nothing.
            pub fn try_read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
                self.0.read(into, $crate::pipe::state::Patience::None)
            }

            /// Reads, waiting at most this long for the first byte: 0 when the last writer is gone.
            ///
            /// # Errors
            /// `TimedOut` when nothing came.
            pub fn read_timeout(&mut self, into: &mut [u8], at_most: std::time::Duration) -> std::io::Result<usize> {
                self.0.read(into, $crate::pipe::state::Patience::at_most(at_most))
            }

            /// A further reading end of the same pipe.
            ///
            /// # Errors
            /// `QuotaExceeded` when the pipe has as many ends as it was made for.
            pub fn another(&self) -> std::io::Result<$reader> {
                Ok($reader($crate::pipe::end::End::reader(&self.0.core)?))
            }

            /// A writing end of the same pipe.
            ///
            /// # Errors
            /// As for [`another`](Self::another).
            pub fn writer(&self) -> std::io::Result<$writer> {
                Ok($writer($crate::pipe::end::End::writer(&self.0.core)?))
            }
        }

        impl std::io::Read for $reader {
            #[inline]
            fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
                self.0.read(into, $crate::pipe::state::Patience::Endless)
            }
        }
    };
}
#[cfg(not(any(loom, shuttle)))]
use ends;

#[cfg(not(any(loom, shuttle)))]
mod many;

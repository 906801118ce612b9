//! The only loop over EINTR, and the question that is asked before each call that may block.

use rustix::io::Errno;

/// Why a call did not give a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The system refused it.
    Os(Errno),
    /// The pause asked for an end: a signal, or whoever embeds the copy.
    Stopped,
}

impl From<Errno> for Cut {
    fn from(errno: Errno) -> Cut {
        Cut::Os(errno)
    }
}

/// What to do about signals before a call that may block, and when one cut it short.
pub trait Pause {
    /// Asked before every call that may block and after each that was interrupted. Cheap when nothing happened.
    ///
    /// # Errors
    /// [`Cut::Stopped`] when the work is to end here.
    fn pause(&mut self) -> Result<(), Cut>;

    /// How often a handler of ours has run, so that a short result can be told from one that a signal cut short.
    fn interruptions(&self) -> u32 {
        0
    }

    /// So many bytes of a write that is to be gone on with were taken.
    fn taken(&mut self, bytes: usize) {
        let _ = bytes;
    }
}

/// A pause that never says anything.
#[derive(Clone, Copy, Debug, Default)]
pub struct Steady;

impl Pause for Steady {
    fn pause(&mut self) -> Result<(), Cut> {
        Ok(())
    }
}

/// Makes `call` until it gives a result other than EINTR, asking `pause` before each attempt.
///
/// # Errors
/// The system's refusal, or [`Cut::Stopped`].
#[inline]
pub fn retry<T, P: Pause + ?Sized>(pause: &mut P, mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Cut> {
    loop {
        pause.pause()?;
        match call() {
            Err(Errno::INTR) => {}
            other => return other.map_err(Cut::Os),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct StopAfter(u32);

    impl Pause for StopAfter {
        fn pause(&mut self) -> Result<(), Cut> {
            if self.0 == 0 {
                return Err(Cut::Stopped);
            }
            self.0 -= 1;
            Ok(())
        }
    }

    #[test]
    fn an_interrupted_call_is_made_again() {
        let mut left = 3;
        let got = retry(&mut Steady, || {
            if left > 0 {
                left -= 1;
                return Err(Errno::INTR);
            }
            Ok(7)
        });
        assert_eq!((got, left), (Ok(7), 0));
    }

    #[test]
    fn any_other_error_ends_the_loop() {
        let mut calls = 0;
        let got: Result<(), Cut> = retry(&mut Steady, || {
            calls += 1;
            Err(Errno::IO)
        });
        assert_eq!((got, calls), (Err(Cut::Os(Errno::IO)), 1));
    }

    #[test]
    fn a_pause_that_stops_is_asked_before_the_next_attempt() {
        let mut calls = 0;
        let got: Result<(), Cut> = retry(&mut StopAfter(2), || {
            calls += 1;
            Err(Errno::INTR)
        });
        assert_eq!((got, calls), (Err(Cut::Stopped), 2));
    }
}

//! The one mouth: standard error, signals and time. Keeps the tally, because a signal can ask for it at any call.

use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fdd_sys::locale::Locale;
use fdd_sys::retry::{Cut, Pause};
use fdd_sys::signal;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use crate::error::{Error, Name, Notice};
use crate::human;
use crate::operands::Status;
use crate::report::{self, Style};
use crate::tally::{Afar, Tally};

const SECOND: Duration = Duration::from_secs(1);
/// Lines kept for a standard error that takes nothing; more are dropped.
const QUEUED: usize = 1000;

/// Where messages go, and whose signals these are.
#[derive(Debug)]
enum Mouth {
    /// The program: standard error, the process's signals and timer.
    Process,
    /// Inside another program, which owns both: messages are kept.
    Kept(Vec<String>),
}

pub struct Monitor {
    mouth: Mouth,
    program: String,
    locale: Locale,
    style: Style,
    pub tally: Tally,
    /// The copy's clock; not running while files are being opened.
    begun: Option<Instant>,
    progress: Option<Progress>,
    /// No timer can be had: the clock is looked at before each call instead.
    by_clock: bool,
    stopped: Option<i32>,
    /// Something could not be written to standard error.
    mute: bool,
    queue: VecDeque<String>,
    /// More to say in the progress line: the fill of a buffer.
    pub suffix: String,
    /// The counts of a writer in another thread, while there is one.
    pub(crate) afar: Option<Arc<Afar>>,
}

#[derive(Debug)]
struct Progress {
    next: Instant,
    /// Length of the line on the screen that no newline has ended.
    shown: usize,
    /// Bytes that the last line told of.
    told: u64,
}

impl Monitor {
    /// For the program itself, which owns the process's signals and standard error.
    pub fn new(program: String, locale: Locale) -> Monitor {
        Monitor::with(Mouth::Process, program, locale)
    }

    /// For a copy inside another program: touches neither signals nor standard error, and keeps what it would have said.
    pub fn embedded(program: String, locale: Locale) -> Monitor {
        Monitor::with(Mouth::Kept(Vec::new()), program, locale)
    }

    /// What an embedded copy has said so far.
    pub fn messages(&self) -> &[String] {
        match &self.mouth {
            Mouth::Process => &[],
            Mouth::Kept(said) => said,
        }
    }

    fn with(mouth: Mouth, program: String, locale: Locale) -> Monitor {
        let style = Style { status: Status::Default, msgfmt: None, decimal_point: locale.decimal_point.clone() };
        Monitor {
            mouth,
            program,
            locale,
            style,
            tally: Tally::default(),
            begun: None,
            progress: None,
            by_clock: false,
            stopped: None,
            mute: false,
            queue: VecDeque::new(),
            suffix: String::new(),
            afar: None,
        }
    }

    /// `speed=`: waits until so many bytes may have been read. Reports are given meanwhile.
    ///
    /// # Errors
    /// [`Cut::Stopped`]
    pub fn pace(&mut self, read: u64, speed: NonZeroU64) -> Result<(), Cut> {
        let due = Duration::from_secs_f64(read as f64 / speed.get() as f64);
        loop {
            self.pause()?;
            let left = due.saturating_sub(self.elapsed());
            if left.is_zero() {
                return Ok(());
            }
            // A signal between the look and the sleep is looked at after this at the latest.
            let nap = rustix::event::Timespec::try_from(left.min(SECOND / 4)).unwrap_or_default();
            let _ = poll(&mut [], Some(&nap));
        }
    }

    /// What is to be said, and how, once the operands are known.
    pub fn speak(&mut self, status: Status, msgfmt: Option<crate::operands::MsgFmt>) {
        self.style.status = status;
        self.style.msgfmt = msgfmt;
    }

    /// The copy begins now; with status=progress the first line is due in a second.
    pub fn start_clock(&mut self) {
        let now = Instant::now();
        self.begun = Some(now);
        let wanted = self.style.status == Status::Progress;
        if wanted {
            self.progress = Some(Progress { next: now + SECOND, shown: 0, told: 0 });
        }
        let timed = match self.mouth {
            Mouth::Process => signal::start_timer(if wanted { SECOND } else { Duration::ZERO }).is_ok(),
            Mouth::Kept(_) => false,
        };
        self.by_clock = wanted && !timed;
    }

    pub fn elapsed(&self) -> Duration {
        self.begun.map_or(Duration::ZERO, |begun| begun.elapsed())
    }

    /// The signal that ended the copy.
    pub fn stopped_by(&self) -> Option<i32> {
        self.stopped
    }

    /// Whether something could not be said.
    pub fn is_mute(&self) -> bool {
        self.mute
    }

    /// One load: nobody wants anything.
    #[inline]
    pub(crate) fn is_calm(&self) -> bool {
        !signal::attention() && !self.by_clock
    }

    /// What a writer in another thread has done becomes part of what is told.
    pub(crate) fn catch_up(&mut self) {
        let Some(afar) = &self.afar else { return };
        afar.merge_into(&mut self.tally);
        self.suffix = format!(", buffer {}%", afar.percent());
    }

    pub(crate) fn owns_signals(&self) -> bool {
        matches!(self.mouth, Mouth::Process)
    }

    #[cold]
    fn attend(&mut self) -> Result<(), Cut> {
        // Again and again: a signal between taking the news and resting the timer would otherwise be slept over.
        while self.owns_signals() && signal::attention() {
            let news = signal::take();
            for _ in 0..news.reports {
                self.statistics();
            }
            if news.stop.is_some() {
                self.stopped = news.stop;
                return Err(Cut::Stopped);
            }
            let now = Instant::now();
            self.progress_if_due(now);
            if news.reports > 0 {
                let until = self.progress.as_ref().map_or(Duration::ZERO, |progress| {
                    progress.next.saturating_duration_since(now).max(Duration::from_millis(1))
                });
                signal::rest(until);
            }
        }
        if self.by_clock {
            self.progress_if_due(Instant::now());
        }
        match &self.afar {
            // Nothing that is still read could be written.
            Some(afar) if afar.has_failed() => Err(Cut::Stopped),
            _ => Ok(()),
        }
    }

    fn progress_if_due(&mut self, now: Instant) {
        let Some(progress) = &mut self.progress else { return };
        if now < progress.next {
            return;
        }
        // GNU catches up with one line for each second of a stall; one is enough.
        while progress.next <= now {
            progress.next += SECOND;
        }
        self.progress_line();
    }

    /// The line that overwrites itself. Dropped where standard error takes nothing: it is due again in a second.
    fn progress_line(&mut self) {
        self.catch_up();
        let elapsed = self.elapsed();
        let mut line = human::transferred(self.tally.bytes, elapsed, true, &self.style.decimal_point);
        line.push_str(&self.suffix);
        let Some(progress) = &mut self.progress else { return };
        progress.told = self.tally.bytes;
        let len = line.chars().count();
        let blanks = progress.shown.saturating_sub(len);
        let text = format!("\r{line}{}", " ".repeat(blanks));
        if self.mouth.takes() {
            progress.shown = len;
            self.write(&text);
        }
    }

    /// Before a wait for the medium: what has been moved, since nothing more will be said for a while.
    pub fn before_sync(&mut self) {
        let elapsed = self.elapsed();
        let Some(progress) = &mut self.progress else { return };
        // GNU adds to a line that was shown; a copy that was over within a second says it once, in the summary.
        if progress.told == 0 || progress.told == self.tally.bytes {
            return;
        }
        progress.told = self.tally.bytes;
        let line = human::transferred(self.tally.bytes, elapsed, false, &self.style.decimal_point);
        let blanks = progress.shown.saturating_sub(line.chars().count());
        let start = if progress.shown > 0 { "\r" } else { "" };
        progress.shown = 0;
        self.write(&format!("{start}{line}{}\n", " ".repeat(blanks)));
    }

    /// The summary as of now.
    pub fn statistics(&mut self) {
        self.catch_up();
        let text = report::summary(&self.tally, self.elapsed(), &self.style);
        if !text.is_empty() {
            let text = self.after_progress(text);
            self.write_or_queue(text);
        }
    }

    pub fn error(&mut self, error: &Error) {
        let text = error.text(&self.locale);
        self.say(&text);
    }

    /// The second line of a usage error names the program as it was called.
    pub fn try_help(&mut self, called_as: &str) {
        self.write_or_queue(format!("Try '{called_as} --help' for more information.\n"));
    }

    /// A warning about the words that were typed: said whatever the status.
    pub fn warn(&mut self, text: &str) {
        self.say(text);
    }

    /// A warning about the copy: status=none does not want it.
    pub fn notice(&mut self, notice: &Notice) {
        if self.style.status != Status::None {
            let text = notice.text(&self.locale);
            self.say(&text);
        }
    }

    /// A read error that the copy goes on after: status=none does not want it either.
    pub fn survived(&mut self, error: &Error) {
        if self.style.status != Status::None {
            self.error(error);
        }
        self.statistics();
    }

    /// Data that are not in the output: said whatever the status.
    pub fn lost(&mut self, notice: &Notice) {
        let text = notice.text(&self.locale);
        self.say(&text);
    }

    fn say(&mut self, text: &str) {
        let line = self.after_progress(format!("{}: {text}\n", self.program));
        self.write_or_queue(line);
    }

    /// Ends a progress line on the screen before anything else is said.
    fn after_progress(&mut self, text: String) -> String {
        match &mut self.progress {
            Some(progress) if progress.shown > 0 => {
                progress.shown = 0;
                format!("\n{text}")
            }
            _ => text,
        }
    }

    /// While copying, a standard error that takes nothing (a terminal under ^S, a full pipe) does not stop the copy.
    fn write_or_queue(&mut self, text: String) {
        if self.begun.is_some() && (!self.queue.is_empty() || !self.mouth.takes()) {
            if self.queue.len() < QUEUED {
                self.queue.push_back(text);
            }
            if !self.mouth.takes() {
                return;
            }
            while let Some(text) = self.queue.pop_front() {
                self.write(&text);
                if !self.mouth.takes() {
                    return;
                }
            }
        } else {
            self.write(&text);
        }
    }

    /// The copy is over: from here on what is to be said is said, even if it has to be waited for.
    pub fn stop_clock(&mut self) -> Duration {
        let elapsed = self.elapsed();
        while let Some(text) = self.queue.pop_front() {
            self.write(&text);
        }
        elapsed
    }

    /// The summary at the end.
    pub fn final_statistics(&mut self, elapsed: Duration) {
        let text = report::summary(&self.tally, elapsed, &self.style);
        if !text.is_empty() {
            let text = self.after_progress(text);
            self.write(&text);
        } else if self.progress.as_ref().is_some_and(|progress| progress.shown > 0) {
            self.write("\n");
        }
        self.progress = None;
    }

    /// A digest: asked for by name, so it is said whatever the status.
    pub fn digest(&mut self, hash: &str, name: &Name, digest: &[u8]) {
        let line = report::digest(hash, &name.text(&self.locale), digest);
        self.write(&line);
    }

    fn write(&mut self, text: &str) {
        if let Mouth::Kept(said) = &mut self.mouth {
            said.push(text.to_owned());
            return;
        }
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            match rustix::io::write(rustix::stdio::stderr(), rest) {
                Ok(0) => break,
                Ok(written) => rest = &rest[written..],
                Err(Errno::INTR) => {
                    if signal::attention() && self.stopped.is_none() {
                        self.stopped = signal::take().stop;
                    }
                    if self.stopped.is_some() {
                        return;
                    }
                }
                Err(Errno::AGAIN) => {
                    let stderr = rustix::stdio::stderr();
                    let _ = poll(&mut [PollFd::new(&stderr, PollFlags::OUT)], None);
                }
                Err(_) => {
                    self.mute = true;
                    return;
                }
            }
        }
    }
}

impl Pause for Monitor {
    #[inline]
    fn pause(&mut self) -> Result<(), Cut> {
        if (signal::attention() && self.owns_signals()) || self.by_clock { self.attend() } else { Ok(()) }
    }

    #[inline]
    fn interruptions(&self) -> u32 {
        signal::handled()
    }
}

impl Mouth {
    /// Whether a line can be said now. A pipe that polls as writable takes PIPE_BUF bytes at once.
    fn takes(&self) -> bool {
        if let Mouth::Kept(_) = self {
            return true;
        }
        let stderr = rustix::stdio::stderr();
        let mut fds = [PollFd::new(&stderr, PollFlags::OUT)];
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        // An error is found by the write itself.
        !matches!(poll(&mut fds, Some(&now)), Ok(0))
    }
}

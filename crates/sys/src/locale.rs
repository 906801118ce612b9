//! What the C library knows of the user's language: the decimal point, the character set, the text of an error.

use std::ffi::CStr;

/// The parts of a locale that dd's output depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Locale {
    /// Text is UTF-8.
    pub utf8: bool,
    /// What stands between the whole and the fraction.
    pub decimal_point: String,
}

impl Default for Locale {
    fn default() -> Locale {
        Locale { utf8: false, decimal_point: ".".to_owned() }
    }
}

/// Takes the locale from the environment for the whole process and tells what it is. To be called once, before threads.
pub fn from_environment() -> Locale {
    // SAFETY: called before other threads exist, as documented; the strings returned are copied before any other call.
    unsafe {
        if libc::setlocale(libc::LC_ALL, c"".as_ptr()).is_null() {
            return Locale::default();
        }
        let codeset = CStr::from_ptr(libc::nl_langinfo(libc::CODESET));
        let point = CStr::from_ptr(libc::nl_langinfo(libc::RADIXCHAR));
        let decimal_point = match point.to_str() {
            Ok(text) if !text.is_empty() => text.to_owned(),
            _ => ".".to_owned(),
        };
        Locale { utf8: codeset.to_bytes().eq_ignore_ascii_case(b"UTF-8"), decimal_point }
    }
}

/// The C library's text for `errno`, without a number.
pub fn error_text(errno: rustix::io::Errno) -> String {
    let mut text = [0u8; 256];
    // SAFETY: the buffer and its length are valid; the XSI form writes a terminated string or fails.
    let rc = unsafe { libc::strerror_r(errno.raw_os_error(), text.as_mut_ptr().cast(), text.len()) };
    match CStr::from_bytes_until_nul(&text) {
        Ok(text) if rc == 0 => text.to_string_lossy().into_owned(),
        _ => format!("Unknown error {}", errno.raw_os_error()),
    }
}

#[cfg(test)]
#[cfg(not(miri))] // Foreign functions.
mod tests {
    use super::*;

    #[test]
    fn an_error_is_worded_without_its_number() {
        assert_eq!(error_text(rustix::io::Errno::NOENT), "No such file or directory");
        assert_eq!(error_text(rustix::io::Errno::from_raw_os_error(4000)), "Unknown error 4000");
    }
}

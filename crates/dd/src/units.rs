//! Whole records and then bytes, in one value.

/// An amount of input or output in records of `block` bytes and then bytes, fewer than one record.
///
/// GNU dd keeps the two apart and in one place tests only the first; here no caller can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Amount {
    records: u64,
    bytes: u64,
    block: u64,
}

impl Amount {
    /// `records` blocks of `block` bytes.
    pub fn of_records(records: u64, block: usize) -> Amount {
        Amount { records, bytes: 0, block: widen(block) }
    }

    /// `bytes` bytes, as so many whole blocks of `block` bytes and a rest.
    pub fn of_bytes(bytes: u64, block: usize) -> Amount {
        let block = widen(block);
        Amount { records: bytes / block, bytes: bytes % block, block }
    }

    pub fn records(self) -> u64 {
        self.records
    }

    /// What is left beyond the whole records.
    pub fn bytes(self) -> u64 {
        self.bytes
    }

    pub fn is_zero(self) -> bool {
        self.records == 0 && self.bytes == 0
    }

    /// All of it in bytes, where a file offset can say it.
    pub fn in_bytes(self) -> Option<u64> {
        let total = self.records.checked_mul(self.block)?.checked_add(self.bytes)?;
        i64::try_from(total).is_ok().then_some(total)
    }
}

/// `usize` is at most 64 bits wide on every target there is.
pub(crate) fn widen(len: usize) -> u64 {
    len as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_whole_records_and_a_rest() {
        let amount = Amount::of_bytes(1000, 512);
        assert_eq!((amount.records(), amount.bytes(), amount.in_bytes()), (1, 488, Some(1000)));
    }

    #[test]
    fn what_no_offset_can_say_is_none() {
        assert_eq!(Amount::of_records(1 << 62, 1024).in_bytes(), None);
        assert_eq!(Amount::of_records(i64::MAX.unsigned_abs(), 1).in_bytes(), Some(i64::MAX.unsigned_abs()));
        assert_eq!(Amount::of_bytes(u64::MAX, 512).in_bytes(), None);
    }
}

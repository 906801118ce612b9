//! File names in messages: the three styles of quoting that GNU dd uses.

//! An alarm: a flag that a clock raises once a period, read with one load.

//! Sizes and rates as people read them, by the two ways of rounding that GNU dd has.

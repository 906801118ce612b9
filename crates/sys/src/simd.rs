//! Table look-up, byte shuffle and zero test: safe functions that dispatch to the best instructions at run time.

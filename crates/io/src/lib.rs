//! Parts for moving bytes, useful without dd. The four modules do not know each other.
#![warn(missing_docs)]

pub mod alarm;
pub mod cache;
pub mod filebuf;
pub mod pipe;

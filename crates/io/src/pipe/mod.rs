//! A byte pipe in memory with any number of readers and writers.

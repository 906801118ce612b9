//! What is said of a series of measurements. Medians and minima; means are not, since one disturbed run moves them.

use serde::Serialize;

/// A series in four numbers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Summary {
    pub(crate) runs: usize,
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
    /// The middle half of the runs lies this far apart, as a share of the median.
    pub(crate) spread: f64,
}

impl Summary {
    /// `None` of no runs.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Option<Summary> {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        let median = quantile(&sorted, 0.5);
        let middle_half = quantile(&sorted, 0.75) - quantile(&sorted, 0.25);
        let spread = if median == 0.0 { 0.0 } else { middle_half / median };
        Some(Summary { runs: sorted.len(), median, min, max, spread })
    }
}

/// The value below which `share` of a sorted, non-empty series lies, between two neighbours in proportion.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "indices of short series"
)]
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let place = share * (sorted.len() - 1) as f64;
    let below = place.floor() as usize;
    let above = place.ceil() as usize;
    sorted[below] + (sorted[above] - sorted[below]) * (place - place.floor())
}

/// How far apart two series of the same command are: what a difference must exceed to mean anything.
pub(crate) fn noise(one: f64, again: f64) -> f64 {
    let (low, high) = if one < again { (one, again) } else { (again, one) };
    if low > 0.0 { high / low - 1.0 } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(values: &[f64]) -> Summary {
        Summary::of(values.iter().copied()).expect("values")
    }

    #[test]
    fn the_median_of_an_odd_series_is_its_middle() {
        let told = summary(&[9.0, 1.0, 5.0]);
        assert_eq!((told.runs, told.median, told.min, told.max), (3, 5.0, 1.0, 9.0));
    }

    #[test]
    fn the_median_of_an_even_series_lies_between_its_middle_two() {
        assert_eq!(summary(&[4.0, 1.0, 2.0, 100.0]).median, 3.0);
    }

    #[test]
    fn spread_is_the_middle_half_and_not_the_outlier() {
        assert_eq!(summary(&[10.0, 11.0, 12.0, 13.0, 1000.0]).spread, 2.0 / 12.0);
        assert_eq!(summary(&[7.0]).spread, 0.0);
        assert_eq!(summary(&[0.0, 0.0]).spread, 0.0);
    }

    #[test]
    fn there_is_nothing_to_say_of_no_runs() {
        assert_eq!(Summary::of([]), None);
    }

    #[test]
    fn noise_does_not_depend_on_the_order() {
        assert_eq!(noise(1.0, 1.25), 0.25);
        assert_eq!(noise(1.25, 1.0), 0.25);
        assert_eq!(noise(0.0, 1.0), 0.0);
    }
}

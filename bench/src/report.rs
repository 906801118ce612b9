//! A case as text: the table of its commands, and whether what is to be reached was.

use serde::Serialize;

use crate::cases::{On, Reach};
use crate::run::{Entrant, Raced};
use crate::stats::{Summary, noise};
use crate::table::{number, render};

/// Whether one of a case's targets was reached.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Verdict {
    pub(crate) target: String,
    /// `None` where it could not be measured.
    pub(crate) measured: Option<f64>,
    pub(crate) outcome: Outcome,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum Outcome {
    Reached,
    /// Missed by less than the same command differs from itself.
    WithinNoise,
    Not,
    /// One of the two sides did not run.
    Unknown,
}

impl Outcome {
    fn words(self) -> &'static str {
        match self {
            Outcome::Reached => "reached",
            Outcome::WithinNoise => "within noise",
            Outcome::Not => "NOT reached",
            Outcome::Unknown => "not measured",
        }
    }
}

fn find<'a>(raced: &'a Raced, label: &str) -> Option<&'a Entrant> {
    raced.entrants.iter().find(|entrant| entrant.label == label)
}

fn seconds(entrant: &Entrant, on: On) -> Option<f64> {
    entrant.seconds().map(|told| match on {
        On::Median => told.median,
        On::Min => told.min,
    })
}

/// The quickest of those that are not ours, by what is asked for.
fn best(raced: &Raced, on: On) -> Option<&Entrant> {
    let others = raced.entrants.iter().filter(|entrant| !entrant.ours && seconds(entrant, on).is_some());
    others.min_by(|one, other| seconds(one, on).partial_cmp(&seconds(other, on)).expect("times are numbers"))
}

/// How far apart the same command was from itself, by median and by minimum.
pub(crate) fn noise_of(raced: &Raced, on: On) -> Option<f64> {
    let again = raced.entrants.iter().position(|entrant| entrant.again)?;
    Some(noise(seconds(&raced.entrants[again - 1], on)?, seconds(&raced.entrants[again], on)?))
}

pub(crate) fn verdicts(raced: &Raced) -> Vec<Verdict> {
    raced.case.reach.iter().map(|reach| verdict(raced, reach)).collect()
}

fn verdict(raced: &Raced, reach: &Reach) -> Verdict {
    match reach {
        Reach::Ratio { than, ratio, on, who } => {
            let other = if than == "best" { best(raced, *on) } else { find(raced, than) };
            let name = match other {
                Some(other) if than == "best" => format!("the best, {}", other.label),
                _ => than.clone(),
            };
            let on_words = if *on == On::Min { " (minima)" } else { "" };
            let measured = find(raced, who)
                .and_then(|ours| seconds(ours, *on))
                .zip(other.and_then(|other| seconds(other, *on)))
                .map(|(ours, other)| other / ours);
            let noise = noise_of(raced, *on).unwrap_or(0.0);
            let outcome = measured.map_or(Outcome::Unknown, |measured| match measured {
                measured if measured >= *ratio => Outcome::Reached,
                measured if measured * (1.0 + noise) >= *ratio => Outcome::WithinNoise,
                _ => Outcome::Not,
            });
            Verdict { target: format!("{who} {ratio}x as fast as {name}{on_words}"), measured, outcome }
        }
        Reach::Most { figure, most, who } => {
            let measured = find(raced, who).and_then(|ours| ours.figure(figure)).map(|told| told.max);
            let outcome = measured
                .map_or(Outcome::Unknown, |measured| if measured <= *most { Outcome::Reached } else { Outcome::Not });
            Verdict { target: format!("{who}: {figure} at most {most}"), measured, outcome }
        }
    }
}

/// The whole case, as it is printed.
pub(crate) fn text(raced: &Raced) -> String {
    let mut text = format!("== {} ==\n{}\n\n", raced.case.name, raced.case.shows);
    let figures = figure_names(raced);
    let mut head = vec!["command", "median s", "min s", "MB/s", "spread", "CPU s", "fdd is"];
    head.extend(figures.iter().map(String::as_str));
    let ours = raced.entrants.iter().find(|entrant| entrant.ours).and_then(Entrant::seconds);
    let rows: Vec<Vec<String>> = raced.entrants.iter().map(|entrant| row(raced, entrant, ours, &figures)).collect();
    text.push_str(&render(&head, &rows));
    if let (Some(median), Some(min)) = (noise_of(raced, On::Median), noise_of(raced, On::Min)) {
        let percent = |share: f64| number(share * 100.0);
        text.push_str(&format!(
            "noise (the same command twice): {} % of medians, {} % of minima\n",
            percent(median),
            percent(min)
        ));
    }
    for entrant in raced.entrants.iter().filter(|entrant| !entrant.again) {
        if let Some(failure) = &entrant.failure {
            text.push_str(&format!("{} failed: {failure}\n", entrant.label));
        }
    }
    if !raced.missing.is_empty() {
        text.push_str(&format!("not installed: {}\n", raced.missing.join(", ")));
    }
    for verdict in verdicts(raced) {
        let measured = verdict.measured.map_or("-".to_owned(), number);
        text.push_str(&format!("{:>12}  {}: {measured}\n", verdict.outcome.words(), verdict.target));
    }
    text
}

/// Names of the figures that any run has, in alphabetical order.
pub(crate) fn figure_names(raced: &Raced) -> Vec<String> {
    let samples = raced.entrants.iter().flat_map(|entrant| &entrant.samples);
    let mut names: Vec<String> = samples.flat_map(|sample| sample.figures.keys().cloned()).collect();
    names.sort();
    names.dedup();
    names
}

fn row(raced: &Raced, entrant: &Entrant, ours: Option<Summary>, figures: &[String]) -> Vec<String> {
    let Some(told) = entrant.seconds() else {
        return vec![entrant.label.clone(), "failed".to_owned()];
    };
    let processor = Summary::of(entrant.samples.iter().map(|sample| sample.user_seconds + sample.system_seconds));
    let mut row = vec![
        entrant.label.clone(),
        number(told.median),
        number(told.min),
        number(megabytes_per_second(raced.size, told.median)),
        format!("{:.0} %", told.spread * 100.0),
        processor.map_or(String::new(), |told| number(told.median)),
        // The others' time in units of ours: above 1 where fdd is faster.
        ours.map_or(String::new(), |ours| format!("{}x", number(told.median / ours.median))),
    ];
    row.extend(figures.iter().map(|figure| {
        entrant.figure(figure).map_or(String::new(), |told| match told.median == told.max {
            true => number(told.max),
            false => format!("{}..{}", number(told.median), number(told.max)),
        })
    }));
    row
}

#[expect(clippy::cast_precision_loss, reason = "a rate for people")]
pub(crate) fn megabytes_per_second(size: u64, seconds: f64) -> f64 {
    size as f64 / 1e6 / seconds
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::measure::Sample;
    use std::collections::BTreeMap;

    /// A case that was run with these times, in seconds.
    pub(crate) fn raced(reach: &str, times: &[(&str, &[f64])]) -> Raced {
        let who = times.iter().filter(|(label, _)| !label.ends_with("(again)")).map(|(label, _)| format!("{label:?}"));
        let case = format!(
            "[[case]]\nsuite = \"copy\"\nname = \"x\"\nshows = \"?\"\nbs = 1000000\ncount = 10\nreach = [{reach}]\ncommand = [{{ who = [{}], line = \"{{tool}}\" }}]",
            who.collect::<Vec<_>>().join(", ")
        );
        let case = crate::cases::parse(&case).expect("a case").case.remove(0);
        let entrants = times.iter().map(|(label, times)| {
            let figures = |seconds: f64| BTreeMap::from([("faults".to_owned(), seconds * 10.0)]);
            let samples =
                times.iter().map(|&seconds| Sample { seconds, figures: figures(seconds), ..Sample::default() });
            crate::run::Entrant::for_test(
                label,
                label.starts_with("fdd"),
                label.ends_with("(again)"),
                samples.collect(),
            )
        });
        Raced {
            case,
            size: 10_000_000,
            entrants: entrants.collect(),
            missing: vec!["pv".to_owned()],
            courses: BTreeMap::new(),
        }
    }

    const TIMES: &[(&str, &[f64])] = &[
        ("fdd", &[1.0, 1.25, 5.0]),
        ("fdd (again)", &[1.0625, 1.375, 1.4]),
        ("gnu", &[3.75, 3.0, 9.0]),
        ("cat", &[2.1, 2.5, 2.6]),
        ("uutils", &[]),
    ];

    fn told(reach: &str) -> (Option<f64>, Outcome) {
        let verdict = verdicts(&raced(reach, TIMES)).remove(0);
        (verdict.measured.map(|measured| (measured * 1000.0).round() / 1000.0), verdict.outcome)
    }

    #[test]
    fn a_ratio_compares_medians_or_minima() {
        assert_eq!(told("{ than = 'gnu', ratio = 3 }"), (Some(3.0), Outcome::Reached));
        assert_eq!(told("{ than = 'gnu', ratio = 4 }"), (Some(3.0), Outcome::Not));
        assert_eq!(told("{ than = 'cat', ratio = 2.1, on = 'min' }"), (Some(2.1), Outcome::Reached));
    }

    #[test]
    fn the_best_is_the_quickest_that_is_not_ours() {
        assert_eq!(told("{ than = 'best', ratio = 2 }"), (Some(2.0), Outcome::Reached));
        assert_eq!(
            verdicts(&raced("{ than = 'best', ratio = 2 }", TIMES))[0].target,
            "fdd 2x as fast as the best, cat"
        );
    }

    #[test]
    fn a_miss_below_the_noise_is_called_that() {
        // The two of ours are 10 % apart in medians and 6 % in minima.
        assert_eq!(told("{ than = 'gnu', ratio = 3.2 }"), (Some(3.0), Outcome::WithinNoise));
        assert_eq!(told("{ than = 'cat', ratio = 2.3, on = 'min' }"), (Some(2.1), Outcome::Not));
    }

    #[test]
    fn what_did_not_run_is_not_judged() {
        assert_eq!(told("{ than = 'uutils', ratio = 1 }"), (None, Outcome::Unknown));
    }

    #[test]
    fn a_bound_holds_for_the_worst_run() {
        assert_eq!(told("{ figure = 'faults', most = 50 }"), (Some(50.0), Outcome::Reached));
        assert_eq!(told("{ figure = 'faults', most = 49 }"), (Some(50.0), Outcome::Not));
    }

    #[test]
    fn the_table_shows_all_alike() {
        let shown = text(&raced("{ than = 'gnu', ratio = 3 }", TIMES));
        #[rustfmt::skip]
        let expected = "\
== x ==
?

command      median s  min s  MB/s  spread  CPU s  fdd is      faults
-----------  --------  -----  ----  ------  -----  ------  ----------
fdd              1.25   1.00  8.00   160 %  0.000   1.00x  12.5..50.0
fdd (again)      1.38   1.06  7.27    12 %  0.000   1.10x  13.8..14.0
gnu              3.75   3.00  2.67    80 %  0.000   3.00x  37.5..90.0
cat              2.50   2.10  4.00    10 %  0.000   2.00x  25.0..26.0
uutils         failed
noise (the same command twice): 10.0 % of medians, 6.25 % of minima
not installed: pv
     reached  fdd 3x as fast as gnu: 3.00
";
        assert_eq!(shown, expected);
    }
}

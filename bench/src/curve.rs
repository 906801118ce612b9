//! What an example measured of several implementations over a size, as tables and as a picture: a cliff is to be seen.

use std::path::Path;

use plotters::coord::ranged1d::{IntoSegmentedCoord, SegmentValue};
use plotters::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::plot::{Drawn, LINES};
use crate::stats::{Summary, noise};
use crate::table::{number, render};

/// Which of the keys in an example's lines are what.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Curve {
    /// The size that grows from left to right.
    over: String,
    /// What has a line of its own.
    of: String,
    /// Ours among those. `ours (again)` is the same once more.
    ours: String,
    /// What is measured.
    shows: Vec<String>,
}

/// The lines of one key: sizes across, and for each implementation what was measured there.
struct Measured {
    sizes: Vec<String>,
    lines: Vec<(String, Vec<Option<Summary>>)>,
}

impl Curve {
    fn measured(&self, lines: &[Value], key: &str) -> Measured {
        let mut sizes = names(lines, &self.over);
        // Numbers as numbers, and words behind them.
        sizes.sort_by_key(|size| (size.parse::<u64>().unwrap_or(u64::MAX), size.clone()));
        let mut names = names(lines, &self.of);
        names.sort_by_key(|name| (!name.starts_with(&self.ours), name.clone()));
        let line = |name: &String| {
            let at = |size: &String| {
                let here = |line: &&Value| word(line, &self.over) == *size && word(line, &self.of) == *name;
                Summary::of(lines.iter().filter(here).filter_map(|line| line.get(key)?.as_f64()))
            };
            (name.clone(), sizes.iter().map(at).collect())
        };
        Measured { lines: names.iter().map(line).collect(), sizes }
    }

    fn again(&self) -> String {
        format!("{} (again)", self.ours)
    }

    /// A table of medians and one of minima for each key; one, where no run differs from another.
    pub(crate) fn text(&self, lines: &[Value]) -> String {
        let mut text = String::new();
        for key in &self.shows {
            let measured = self.measured(lines, key);
            let all = || measured.lines.iter().flat_map(|(_, line)| line.iter().flatten());
            if all().all(|told| told.min == told.max) && all().any(|told| told.runs > 1) {
                text.push_str(&self.table(key, &measured, |told| told.median));
                continue;
            }
            text.push_str(&self.table(&format!("{key}, median"), &measured, |told| told.median));
            text.push_str(&self.table(&format!("{key}, min"), &measured, |told| told.min));
        }
        text
    }

    /// The last column is the best of the others in units of ours.
    fn table(&self, title: &str, measured: &Measured, figure: impl Fn(&Summary) -> f64) -> String {
        let mut head = vec![self.over.as_str()];
        head.extend(measured.lines.iter().map(|(name, _)| name.as_str()));
        head.push("best other");
        let mut rows = Vec::new();
        let mut noises = Vec::new();
        for (at, size) in measured.sizes.iter().enumerate() {
            let told: Vec<Option<f64>> =
                measured.lines.iter().map(|(_, line)| line[at].as_ref().map(&figure)).collect();
            let named = || measured.lines.iter().map(|(name, _)| name.as_str()).zip(&told);
            let of = |wanted: &str| named().find(|(name, _)| *name == wanted).and_then(|(_, told)| *told);
            let others = named().filter(|(name, _)| !name.starts_with(&self.ours)).filter_map(|(_, told)| *told);
            let ours = of(&self.ours);
            let best = others.min_by(f64::total_cmp).zip(ours).map(|(best, ours)| best / ours);
            noises.extend(ours.zip(of(&self.again())).map(|(one, again)| noise(one, again)));
            let mut row = vec![size.clone()];
            row.extend(told.iter().map(|told| told.map_or(String::new(), number)));
            row.push(best.map_or(String::new(), |ratio| format!("{ratio:.2}x")));
            rows.push(row);
        }
        let noise = Summary::of(noises).map_or(String::new(), |told| {
            format!(
                "noise (ours twice): {:.1} % at most sizes, {:.1} % at the worst\n",
                told.median * 100.0,
                told.max * 100.0
            )
        });
        format!("{title}\n{}{noise}\n", render(&head, &rows))
    }

    /// A picture for each key, one below the other; sizes at even distances, and the figures by powers of ten.
    pub(crate) fn draw(&self, path: &Path, title: &str, lines: &[Value]) -> Drawn {
        let height = 60 + 340 * u32::try_from(self.shows.len())?;
        let whole = SVGBackend::new(path, (900, height)).into_drawing_area();
        whole.fill(&WHITE)?;
        let panels = whole.titled(title, ("sans-serif", 16))?.split_evenly((self.shows.len(), 1));
        for (panel, key) in panels.iter().zip(&self.shows) {
            let measured = self.measured(lines, key);
            let lines = measured.lines.iter().filter(|(name, _)| *name != self.again());
            let medians = || lines.clone().flat_map(|(_, line)| line.iter().flatten()).map(|told| told.median);
            let least = medians().filter(|median| *median > 0.0).fold(f64::INFINITY, f64::min);
            let most = medians().fold(0.0, f64::max);
            if measured.sizes.is_empty() || most == 0.0 {
                continue;
            }
            let sizes = &measured.sizes;
            let mut chart = ChartBuilder::on(panel)
                .margin(12)
                .x_label_area_size(40)
                .y_label_area_size(70)
                .build_cartesian_2d((0..sizes.len() - 1).into_segmented(), (least * 0.8..most * 1.25).log_scale())?;
            let label = |at: &SegmentValue<usize>| match at {
                SegmentValue::CenterOf(at) => sizes.get(*at).cloned().unwrap_or_default(),
                _ => String::new(),
            };
            chart
                .configure_mesh()
                .disable_x_mesh()
                .light_line_style(WHITE)
                .x_labels(sizes.len())
                .x_label_formatter(&label)
                .y_label_formatter(&|figure| number(*figure))
                .x_desc(&self.over)
                .y_desc(key)
                .draw()?;
            for (place, (name, line)) in lines.enumerate() {
                let colour = LINES[place % LINES.len()];
                let points = || {
                    let told = line.iter().enumerate().filter_map(|(at, told)| Some((at, told.as_ref()?.median)));
                    told.map(|(at, median)| (SegmentValue::CenterOf(at), median))
                };
                chart
                    .draw_series(LineSeries::new(points(), colour.stroke_width(2)))?
                    .label(name)
                    .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], colour.stroke_width(2)));
                chart.draw_series(points().map(|point| Circle::new(point, 3, colour.filled())))?;
            }
            chart
                .configure_series_labels()
                .background_style(WHITE.mix(0.8))
                .position(SeriesLabelPosition::UpperLeft)
                .draw()?;
        }
        whole.present()?;
        Ok(())
    }
}

fn word(line: &Value, key: &str) -> String {
    match line.get(key) {
        Some(Value::String(word)) => word.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    }
}

/// What `key` names in the lines, each once.
fn names(lines: &[Value], key: &str) -> Vec<String> {
    let mut names: Vec<String> = lines.iter().map(|line| word(line, key)).filter(|name| !name.is_empty()).collect();
    names.sort();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve() -> Curve {
        let shows = vec!["calls".to_owned(), "seconds".to_owned()];
        Curve { over: "chunk".into(), of: "who".into(), ours: "ours".into(), shows }
    }

    fn lines() -> Vec<Value> {
        let told = [
            ("random:9", "ours", 3, 0.5),
            ("10", "ours", 2, 4.0),
            ("9", "theirs", 8, 3.0),
            ("9", "ours", 4, 1.0),
            ("9", "ours", 4, 2.0),
            ("9", "ours (again)", 4, 1.8),
            ("10", "theirs", 2, 2.0),
            ("9", "others", 6, 6.0),
        ];
        let line = |(chunk, who, calls, seconds)| serde_json::json!({ "chunk": chunk, "who": who, "calls": calls, "seconds": seconds });
        told.map(line).to_vec()
    }

    #[test]
    fn sizes_are_rows_in_their_order_and_the_best_of_the_others_is_told_in_units_of_ours() {
        let expected = "\
calls
chunk     ours  ours (again)  others  theirs  best other
--------  ----  ------------  ------  ------  ----------
9         4.00          4.00    6.00    8.00       1.50x
10        2.00                          2.00       1.00x
random:9  3.00
noise (ours twice): 0.0 % at most sizes, 0.0 % at the worst

seconds, median
chunk      ours  ours (again)  others  theirs  best other
--------  -----  ------------  ------  ------  ----------
9          1.50          1.80    6.00    3.00       2.00x
10         4.00                          2.00       0.50x
random:9  0.500
noise (ours twice): 20.0 % at most sizes, 20.0 % at the worst

";
        let text = curve().text(&lines());
        assert!(text.starts_with(expected), "{text}");
        assert!(text[expected.len()..].starts_with("seconds, min\n"), "{text}");
    }

    #[test]
    fn a_picture_has_every_size_and_each_line_once() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("picture.svg");
        curve().draw(&path, "chunks", &lines()).expect("drawn");
        let drawn = std::fs::read_to_string(&path).expect("a file");
        for word in ["random:9", "10", "others", "theirs", "calls", "seconds"] {
            assert!(drawn.contains(word), "{word}");
        }
        assert!(!drawn.contains("(again)"));
    }

    #[test]
    fn nothing_measured_is_no_picture_and_no_error() {
        let directory = tempfile::tempdir().expect("a directory");
        curve().draw(&directory.path().join("picture.svg"), "nothing", &[]).expect("drawn");
    }
}

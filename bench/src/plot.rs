//! Pictures of the results, as SVG: bars of time for each case, and what was in the page cache over the time of a copy.

use std::path::{Path, PathBuf};

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::Error;
use crate::cases::Suite;
use crate::examples::Told;
use crate::run::{Entrant, Raced};
use crate::table::number;

const WIDTH: u32 = 900;
const ROW: i32 = 20;
/// Where the bars begin, after the labels, and how long the longest is.
const BARS: (i32, i32) = (200, 520);

const OURS: RGBColor = RGBColor(200, 80, 30);
const OTHERS: RGBColor = RGBColor(120, 140, 165);
/// For lines over time, told apart also by those who do not see colours alike.
pub(crate) const LINES: [RGBColor; 8] = [
    RGBColor(213, 94, 0),
    RGBColor(0, 114, 178),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(80, 80, 80),
    RGBColor(160, 160, 60),
];

/// Draws a suite into `directory` and tells the files.
pub(crate) fn suite(directory: &Path, suite: Suite, raced: &[Raced]) -> Result<Vec<PathBuf>, Error> {
    std::fs::create_dir_all(directory).map_err(|error| Error(format!("{}: {error}", directory.display())))?;
    let mut files = Vec::new();
    if raced.is_empty() {
        return Ok(files);
    }
    let bars = directory.join(format!("{}.svg", suite.name()));
    draw_bars(&bars, raced).map_err(|error| Error(format!("{}: {error}", bars.display())))?;
    files.push(bars);
    for (number, raced) in
        raced.iter().enumerate().filter(|(_, raced)| raced.courses.values().any(|course| !course.is_empty()))
    {
        let path = directory.join(format!("{}-{}.svg", suite.name(), number + 1));
        draw_courses(&path, raced).map_err(|error| Error(format!("{}: {error}", path.display())))?;
        files.push(path);
    }
    Ok(files)
}

pub(crate) type Drawn = Result<(), Box<dyn std::error::Error>>;

/// Draws the curves of examples that have some and tells the files.
pub(crate) fn examples(directory: &Path, told: &[Told]) -> Result<Vec<PathBuf>, Error> {
    let mut files = Vec::new();
    for told in told {
        let Some(curve) = &told.curve else { continue };
        let name: String = told.name.chars().map(|each| if each.is_alphanumeric() { each } else { '-' }).collect();
        let path = directory.join(format!("{}.svg", name.trim_matches('-')));
        std::fs::create_dir_all(directory).map_err(|error| Error(format!("{}: {error}", directory.display())))?;
        let drawn = curve.draw(&path, &told.name, &told.lines);
        drawn.map_err(|error| Error(format!("{}: {error}", path.display())))?;
        files.push(path);
    }
    Ok(files)
}

/// A group of bars for each case; within one, the slowest has the full length.
fn draw_bars(path: &Path, raced: &[Raced]) -> Drawn {
    let shown: Vec<Vec<(&Entrant, f64)>> = raced.iter().map(bars_of).collect();
    let rows: usize = shown.iter().map(|bars| bars.len() + 2).sum();
    let height = (u32::try_from(rows)? + 1) * ROW.unsigned_abs();
    let area = SVGBackend::new(path, (WIDTH, height)).into_drawing_area();
    area.fill(&WHITE)?;
    let text =
        |size: i32, place: HPos| TextStyle::from(("sans-serif", size).into_font()).pos(Pos::new(place, VPos::Center));
    let mut y = ROW;
    for (raced, bars) in raced.iter().zip(&shown) {
        area.draw(&Text::new(format!("{} (seconds, median)", raced.case.name), (10, y), text(15, HPos::Left)))?;
        y += ROW;
        let longest = bars.iter().map(|(_, seconds)| *seconds).fold(0.0, f64::max);
        let ours = bars.iter().find(|(entrant, _)| entrant.ours).map(|(_, seconds)| *seconds);
        for (entrant, seconds) in bars {
            let length = length_of(*seconds, longest);
            let colour = if entrant.ours { OURS } else { OTHERS };
            area.draw(&Text::new(entrant.label.clone(), (BARS.0 - 8, y), text(13, HPos::Right)))?;
            area.draw(&Rectangle::new([(BARS.0, y - 7), (BARS.0 + length, y + 7)], colour.filled()))?;
            let ratio = ours.map_or(String::new(), |ours| format!("  ({}x)", number(seconds / ours)));
            area.draw(&Text::new(
                format!("{}{ratio}", number(*seconds)),
                (BARS.0 + length + 6, y),
                text(13, HPos::Left),
            ))?;
            y += ROW;
        }
        y += ROW;
    }
    area.present()?;
    Ok(())
}

fn bars_of(raced: &Raced) -> Vec<(&Entrant, f64)> {
    let told = raced.entrants.iter().filter(|entrant| !entrant.again);
    told.filter_map(|entrant| Some((entrant, entrant.seconds()?.median))).collect()
}

/// At least a pixel, so that what is very fast can be seen to be there.
#[expect(clippy::cast_possible_truncation, reason = "at most the longest bar")]
fn length_of(seconds: f64, longest: f64) -> i32 {
    ((seconds / longest * f64::from(BARS.1)).round() as i32).clamp(1, BARS.1)
}

/// MiB in the page cache over seconds, a line for each command.
fn draw_courses(path: &Path, raced: &Raced) -> Drawn {
    let courses: Vec<_> = raced.courses.iter().filter(|(label, _)| !label.ends_with("(again)")).collect();
    let points = || courses.iter().flat_map(|(_, course)| course.iter());
    let last = points().map(|(seconds, _)| *seconds).fold(0.1, f64::max);
    let most = points().map(|(_, mib)| *mib).fold(1.0, f64::max);
    let area = SVGBackend::new(path, (WIDTH, 420)).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(format!("{}: MiB of both files in the page cache", raced.case.name), ("sans-serif", 16))
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(60)
        .build_cartesian_2d(0.0..last * 1.02, 0.0..most * 1.05)?;
    chart.configure_mesh().x_desc("seconds").y_desc("MiB").light_line_style(WHITE).draw()?;
    for (place, (label, course)) in courses.iter().enumerate() {
        let colour = LINES[place % LINES.len()];
        chart
            .draw_series(LineSeries::new(course.iter().copied(), colour.stroke_width(2)))?
            .label(label.as_str())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], colour.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .background_style(WHITE.mix(0.8))
        .position(SeriesLabelPosition::UpperRight)
        .draw()?;
    area.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::raced;

    #[test]
    fn bars_are_in_proportion_and_never_vanish() {
        assert_eq!(length_of(2.0, 2.0), 520);
        assert_eq!(length_of(1.0, 2.0), 260);
        assert_eq!(length_of(0.000_1, 2.0), 1);
    }

    #[test]
    fn a_suite_is_drawn_with_its_labels_and_ratios() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut told = raced("", &[("fdd", &[1.0]), ("fdd (again)", &[1.0]), ("gnu", &[3.0])]);
        told.courses.insert("fdd".to_owned(), vec![(0.0, 0.0), (1.0, 20.0)]);
        let files = suite(directory.path(), Suite::Residency, &[told]).expect("drawn");
        let read = |place: usize| std::fs::read_to_string(&files[place]).expect("a file");
        assert_eq!(files.len(), 2);
        assert!(read(0).contains("gnu") && read(0).contains("3.00x") && !read(0).contains("again"));
        assert!(read(1).contains("page cache"));
    }
}

//! Text tables: the first column to the left, the others to the right, widths as needed.

/// Renders `rows` under `head`. A row that is shorter than the head is filled up with blanks.
pub(crate) fn render(head: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain([head[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let mut lines = vec![line(&widths, head)];
    lines.push(widths.iter().map(|width| "-".repeat(*width)).collect::<Vec<_>>().join("  "));
    lines.extend(rows.iter().map(|row| line(&widths, row)));
    lines.join("\n") + "\n"
}

fn line<S: AsRef<str>>(widths: &[usize], cells: &[S]) -> String {
    let mut line = String::new();
    for (column, width) in widths.iter().enumerate() {
        let cell = cells.get(column).map_or("", AsRef::as_ref);
        if column == 0 {
            line.push_str(&format!("{cell:<width$}"));
        } else {
            line.push_str(&format!("  {cell:>width$}"));
        }
    }
    line.trim_end().to_owned()
}

/// A number with about three digits that count, in units that people read.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        // The bounds are where rounding adds a digit.
        size if size >= 99.95 => format!("{value:.0}"),
        size if size >= 9.995 => format!("{value:.1}"),
        size if size >= 0.9995 => format!("{value:.2}"),
        size if size >= 0.001 || size == 0.0 => format!("{value:.3}"),
        _ => format!("{value:.1e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [vec!["a".to_owned(), "1000".to_owned()], vec!["longer".to_owned(), "2".to_owned()]];
        assert_eq!(render(&["name", "s"], &rows), "name       s\n------  ----\na       1000\nlonger     2\n");
    }

    #[test]
    fn a_short_row_is_filled_up() {
        assert_eq!(render(&["a", "b"], &[vec!["x".to_owned()]]), "a  b\n-  -\nx\n");
    }

    #[test]
    fn widths_count_characters_and_not_bytes() {
        assert_eq!(render(&["a", "b"], &[vec!["µ".to_owned(), "1".to_owned()]]), "a  b\n-  -\nµ  1\n");
    }

    #[test]
    fn numbers_have_about_three_digits() {
        let rows = [
            (1234.5, "1234"),
            (45.67, "45.7"),
            (1.234, "1.23"),
            (0.0123, "0.012"),
            (9.999, "10.0"),
            (0.0, "0.000"),
            (-12.0, "-12.0"),
        ];
        for (value, shown) in rows {
            assert_eq!(number(value), shown);
        }
        assert_eq!(number(0.000_12), "1.2e-4");
    }
}

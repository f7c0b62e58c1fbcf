//! A job's screen as lines for ours: colours kept, cut or folded to the room there is. Pure.

use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

use crate::screen::Screen;

/// The part of a screen that fits into so many rows and columns, the newest rows where not all do.
/// A full-screen program's rows are cut, for folding would tear its picture; other lines are folded.
pub(super) fn picture(
    screen: &Screen,
    rows: u16,
    columns: u16,
    colours: bool,
) -> Vec<Line<'static>> {
    let (height, width) = screen.size();
    let last = (0..height)
        .rev()
        .find(|&row| !is_empty(screen, row, width))
        .map_or(0, |row| row + 1)
        .max(if screen.cursor_is_hidden() {
            0
        } else {
            screen.cursor().0 + 1
        });
    let mut lines = Vec::new();
    for row in 0..last.min(height) {
        let cells = cells(screen, row, width, colours);
        if screen.is_full_screen() {
            lines.push(fold(&cells, columns).into_iter().next().unwrap_or_default());
        } else {
            lines.extend(fold(&cells, columns));
        }
    }
    let rows = usize::from(rows);
    if lines.len() > rows {
        lines.drain(..lines.len() - rows);
    }
    lines
}

fn is_empty(screen: &Screen, row: u16, width: u16) -> bool {
    (0..width).all(|column| {
        screen.cells().cell(row, column).is_none_or(|cell| {
            cell.contents().trim().is_empty()
                && cell.bgcolor() == vt100::Color::Default
                && !cell.inverse()
        })
    })
}

/// What stands in a row, up to its last sign: text, style, width. The cursor is shown reversed.
fn cells(screen: &Screen, row: u16, width: u16, colours: bool) -> Vec<(String, Style, u16)> {
    let cursor = (!screen.cursor_is_hidden()).then(|| screen.cursor());
    let mut cells = Vec::new();
    let mut used = 0;
    for column in 0..width {
        let Some(cell) = screen.cells().cell(row, column) else {
            continue;
        };
        if cell.is_wide_continuation() {
            continue;
        }
        let mut style = style(cell, colours);
        let is_cursor = cursor == Some((row, column));
        if is_cursor {
            style = style.add_modifier(Modifier::REVERSED);
        }
        let text = match cell.contents() {
            "" => " ".to_owned(),
            text => text.to_owned(),
        };
        let says = text != " " || is_cursor || style != Style::default();
        cells.push((text, style, if cell.is_wide() { 2 } else { 1 }));
        if says {
            used = cells.len();
        }
    }
    cells.truncate(used);
    cells
}

/// Lines of at most so many columns; at least one.
fn fold(cells: &[(String, Style, u16)], columns: u16) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    let mut spans: Vec<Span<'static>> = Vec::new();
    let mut filled = 0;
    for (text, style, width) in cells {
        if filled + width > columns && filled > 0 {
            lines.push(Line::from(std::mem::take(&mut spans)));
            filled = 0;
        }
        filled += width;
        match spans.last_mut() {
            Some(last) if last.style == *style => last.content.to_mut().push_str(text),
            _ => spans.push(Span::styled(text.clone(), *style)),
        }
    }
    lines.push(Line::from(spans));
    lines
}

fn style(cell: &vt100::Cell, colours: bool) -> Style {
    let mut style = Style::default();
    if colours {
        if let Some(colour) = colour(cell.fgcolor()) {
            style = style.fg(colour);
        }
        if let Some(colour) = colour(cell.bgcolor()) {
            style = style.bg(colour);
        }
    }
    for (is_set, modifier) in [
        (cell.bold(), Modifier::BOLD),
        (cell.dim(), Modifier::DIM),
        (cell.italic(), Modifier::ITALIC),
        (cell.underline(), Modifier::UNDERLINED),
        (cell.inverse(), Modifier::REVERSED),
    ] {
        if is_set {
            style = style.add_modifier(modifier);
        }
    }
    style
}

fn colour(colour: vt100::Color) -> Option<Color> {
    match colour {
        vt100::Color::Default => None,
        vt100::Color::Idx(index) => Some(Color::Indexed(index)),
        vt100::Color::Rgb(red, green, blue) => Some(Color::Rgb(red, green, blue)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(bytes: &[u8], rows: u16, columns: u16) -> Vec<String> {
        let mut screen = Screen::new(5, 20);
        screen.push(b"\x1b[?25l");
        screen.push(bytes);
        let lines = picture(&screen, rows, columns, true);
        lines.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_fits() {
        for (bytes, rows, columns, wanted) in [
            (&b"one\ntwo"[..], 5, 20, &["one", "two"][..]),
            (b"one\ntwo\nthree", 2, 20, &["two", "three"]),
            (b"0123456789", 5, 4, &["0123", "4567", "89"]),
            (b"\x1b[?1049h0123456789\r\nab", 5, 4, &["0123", "ab"]),
            (b"", 5, 20, &[]),
            ("日本語".as_bytes(), 5, 4, &["日本", "語"]),
            (b"x", 0, 0, &[]),
            (b"ab", 3, 0, &["a", "b"]),
        ] {
            assert_eq!(
                drawn(bytes, rows, columns),
                wanted,
                "{:?}",
                bytes.escape_ascii()
            );
        }
    }

    #[test]
    fn colours_only_where_wanted() {
        let mut screen = Screen::new(5, 20);
        screen.push(b"\x1b[1;31mred");
        let with = &picture(&screen, 5, 20, true)[0].spans[0];
        assert_eq!(with.style.fg, Some(Color::Indexed(1)));
        let without = &picture(&screen, 5, 20, false)[0].spans[0];
        assert_eq!(without.style.fg, None);
        assert!(without.style.add_modifier.contains(Modifier::BOLD));
    }
}

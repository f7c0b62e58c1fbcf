//! How jobs look to people: the row of a job, the table, the sentence of its end. Pure.

use std::fmt::Write;
use std::time::Duration;

use crate::job::{How, State};
use crate::message::{Colour, Palette};
use crate::text;
pub(crate) use crate::text::{short_duration, signal_name, size};

/// The width of a command where no terminal sets a limit.
const COMMAND_IN_PIPE: usize = 120;
/// A command is never shortened below this, however narrow the terminal.
const COMMAND_LEAST: usize = 16;

/// What the verbs say of a job.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) id: String,
    pub(crate) name: Option<String>,
    pub(crate) state: State,
    /// So far, or in all. `None`: nobody knows when it ended.
    pub(crate) took: Option<Duration>,
    pub(crate) exit_code: Option<u8>,
    pub(crate) signal: Option<i32>,
    /// Why it is lost.
    pub(crate) reason: Option<String>,
    pub(crate) how: How,
    pub(crate) session: Option<String>,
    pub(crate) command: String,
    pub(crate) unsupervised: bool,
}

impl Row {
    fn exit(&self) -> String {
        match (self.state, self.exit_code, self.signal) {
            (State::Exited, Some(code), _) => code.to_string(),
            (State::Signaled, _, Some(signal)) => signal_name(signal),
            _ => "-".to_owned(),
        }
    }

    fn colour(&self) -> Colour {
        match (self.state, self.exit_code) {
            (State::Running, _) => Colour::Blue,
            (State::Stopped, _) => Colour::Yellow,
            (State::Exited, Some(0)) => Colour::Green,
            _ => Colour::Red,
        }
    }

    fn label(&self) -> String {
        match &self.name {
            Some(name) => format!("({name}) {}", self.command),
            None => self.command.clone(),
        }
    }
}

/// `exited with 0 after 4m12s`, without the name of the job.
pub(crate) fn ending(row: &Row) -> String {
    let after = match row.took {
        Some(took) => format!(" after {}", short_duration(took)),
        None => String::new(),
    };
    match (row.state, row.exit_code, row.signal) {
        (State::Running, ..) if row.unsupervised => {
            format!("is still running{after}, but its supervisor is gone")
        }
        (State::Running, ..) => format!("is still running{after}"),
        (State::Stopped, ..) => format!("is stopped{after}"),
        (State::Exited, Some(code), _) => format!("exited with {code}{after}"),
        (State::Exited, None, _) => format!("exited{after}, with a code that nobody saw"),
        (State::Signaled, _, Some(signal)) => {
            format!("was signaled ({}){after}", signal_name(signal))
        }
        (State::Signaled, _, None) => format!("was signaled{after}"),
        (State::Lost, ..) => match &row.reason {
            Some(reason) => format!("is lost ({reason}){after}"),
            None => format!("is lost{after}"),
        },
    }
}

/// `job 7f3k exited with 0 after 4m12s: cargo build`
pub(crate) fn sentence(row: &Row) -> String {
    let command = text::shorten(&row.label(), COMMAND_IN_PIPE);
    format!("job {} {}: {command}", row.id, ending(row))
}

/// The table of `ps`. Empty for no rows.
pub(crate) fn table(
    rows: &[Row],
    with_session: bool,
    width: Option<usize>,
    palette: Palette,
) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let mut heads = vec!["STATE", "ID", "TIME", "EXIT", "HOW"];
    if with_session {
        heads.push("SESSION");
    }
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            let mark = if row.unsupervised && !row.state.is_terminal() {
                "*"
            } else {
                ""
            };
            let mut cells = vec![
                format!("{}{mark}", row.state),
                row.id.clone(),
                row.took.map_or_else(|| "-".to_owned(), short_duration),
                row.exit(),
                row.how.to_string(),
            ];
            if with_session {
                cells.push(fit(row.session.as_deref().unwrap_or("-"), 12));
            }
            cells
        })
        .collect();
    let widths: Vec<usize> = heads
        .iter()
        .enumerate()
        .map(|(column, head)| {
            let widest = cells.iter().map(|row| columns(&row[column])).max();
            widest.unwrap_or(0).max(head.len())
        })
        .collect();
    let before = widths.iter().sum::<usize>() + 2 * widths.len();
    let room = match width {
        Some(width) => width.saturating_sub(before).max(COMMAND_LEAST),
        None => COMMAND_IN_PIPE,
    };
    let mut out = String::new();
    let head = line(&heads, &widths) + "COMMAND";
    let _ = writeln!(out, "{}", palette.paint(Colour::Dim, &head));
    for (row, cells) in rows.iter().zip(&cells) {
        let cells: Vec<&str> = cells.iter().map(String::as_str).collect();
        // The first cell is painted with its padding, so that invisible bytes disturb no column.
        let text = line(&cells, &widths);
        let (state, rest) = text.split_at(widths[0]);
        let command = fit(&row.label(), room);
        let _ = writeln!(out, "{}{rest}{command}", palette.paint(row.colour(), state));
    }
    out
}

fn line(cells: &[&str], widths: &[usize]) -> String {
    let mut out = String::new();
    for (cell, width) in cells.iter().zip(widths) {
        out.push_str(cell);
        out.extend(std::iter::repeat_n(
            ' ',
            width.saturating_sub(columns(cell)) + 2,
        ));
    }
    out
}

/// One line of at most so many terminal columns.
pub(crate) fn fit(label: &str, room: usize) -> String {
    let shown = text::shorten(label, room);
    if columns(&shown) <= room {
        return shown;
    }
    // Wide letters: take them one by one, and leave a column for the mark.
    let mut cut = String::new();
    for letter in shown.chars() {
        let mut longer = cut.clone();
        longer.push(letter);
        if columns(&longer) + 1 > room {
            break;
        }
        cut = longer;
    }
    cut.push('…');
    cut
}

/// How many columns a terminal gives a text.
pub(crate) fn columns(text: &str) -> usize {
    unicode_width::UnicodeWidthStr::width(text)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn row(id: &str, state: State) -> Row {
        Row {
            id: id.to_owned(),
            name: None,
            state,
            took: Some(Duration::from_secs(252)),
            exit_code: None,
            signal: None,
            reason: None,
            how: How::Ampersand,
            session: None,
            command: "cargo build --release".to_owned(),
            unsupervised: false,
        }
    }

    fn five() -> Vec<Row> {
        let mut done = row("7f3k2m", State::Exited);
        done.exit_code = Some(0);
        let mut failed = row("7f3k9p", State::Exited);
        failed.exit_code = Some(101);
        failed.took = Some(Duration::from_millis(1_250));
        let mut killed = row("8a2222", State::Signaled);
        killed.signal = Some(15);
        killed.how = How::Nohup;
        killed.name = Some("web".to_owned());
        let mut lost = row("8b2222", State::Lost);
        lost.reason = Some("reboot".to_owned());
        lost.took = None;
        lost.session = Some("0192-a-long-session-key".to_owned());
        let mut alone = row("8c2222", State::Running);
        alone.unsupervised = true;
        alone.command = "for i in 1 2 3; do\n\techo \u{1b}[31m漢字 $i; done".to_owned();
        vec![done, failed, killed, lost, alone]
    }

    #[test]
    fn the_table_at_eighty_columns() {
        let wanted = "\
STATE     ID      TIME   EXIT  HOW        COMMAND
exited    7f3k2m  4m12s  0     ampersand  cargo build --release
exited    7f3k9p  1.2s   101   ampersand  cargo build --release
signaled  8a2222  4m12s  TERM  nohup      (web) cargo build --release
lost      8b2222  -      -     ampersand  cargo build --release
running*  8c2222  4m12s  -     ampersand  for i in 1 2 3; do echo 漢字 $i; done
";
        assert_eq!(table(&five(), false, Some(80), Palette::OFF), wanted);
        for line in wanted.lines() {
            assert!(columns(line) <= 80, "{line}");
        }
    }

    #[test]
    fn the_table_shortens_only_commands() {
        let wanted = "\
STATE     ID      TIME   EXIT  HOW        SESSION       COMMAND
exited    7f3k2m  4m12s  0     ampersand  -             cargo build --r…
exited    7f3k9p  1.2s   101   ampersand  -             cargo build --r…
signaled  8a2222  4m12s  TERM  nohup      -             (web) cargo bui…
lost      8b2222  -      -     ampersand  0192-a-long…  cargo build --r…
running*  8c2222  4m12s  -     ampersand  -             for i in 1 2 3;…
";
        assert_eq!(table(&five(), true, Some(72), Palette::OFF), wanted);
        assert_eq!(table(&[], true, Some(72), Palette::OFF), "");
    }

    #[test]
    fn sentences() {
        let wanted = [
            "job 7f3k2m exited with 0 after 4m12s: cargo build --release",
            "job 7f3k9p exited with 101 after 1.2s: cargo build --release",
            "job 8a2222 was signaled (TERM) after 4m12s: (web) cargo build --release",
            "job 8b2222 is lost (reboot): cargo build --release",
            "job 8c2222 is still running after 4m12s, but its supervisor is gone: for i in 1 2 3; do echo 漢字 $i; done",
        ];
        let got: Vec<_> = five().iter().map(sentence).collect();
        assert_eq!(got, wanted);
    }

    #[test]
    fn wide_letters_count_twice() {
        assert_eq!(columns("漢字"), 4);
        assert_eq!(fit(&"漢".repeat(50), 20), format!("{}…", "漢".repeat(9)));
        assert_eq!(columns("👩‍👩‍👧‍👦 e\u{301}"), 4);
        for room in 0..20 {
            assert!(
                columns(&fit(&"漢a".repeat(50), room)) <= room.max(1),
                "{room}"
            );
        }
        assert_eq!(fit("plain", 20), "plain");
    }

    #[test]
    fn durations() {
        for (ms, text) in [
            (0, "0.0s"),
            (412, "0.4s"),
            (9_999, "9.9s"),
            (10_000, "10s"),
            (59_999, "59s"),
            (60_000, "1m00s"),
            (252_000, "4m12s"),
            (7_500_000, "2h05m"),
            (273_600_000, "3d04h"),
        ] {
            assert_eq!(short_duration(Duration::from_millis(ms)), text);
        }
    }

    #[test]
    fn sizes_and_signals() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1536, "1.5 KiB"),
            (64 << 20, "64.0 MiB"),
        ] {
            assert_eq!(size(bytes), text);
        }
        assert_eq!(signal_name(9), "KILL");
        assert_eq!(signal_name(40), "40");
    }
}

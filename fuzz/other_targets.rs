//! Records, what jobs print, frames, settings.

use std::ffi::OsString;
use std::fmt::Write;
use std::os::unix::ffi::OsStringExt;

use agent_sh::testing::{
    Address, Ask, Asked, Checks, Clean, How, Newlines, Parsed, Register, Registered, Request,
    SETTINGS, Screen, Settings, Size, What, clean_tail, duration, escape_json, nearest, notice,
    parse_launch, parse_record, parse_summary, quote, redact, replace_misleading, sanitize,
    sanitize_line, shorten, size, started_event, unknown_variables,
};

use crate::random::Random;

const NUMBERS: &[&str] = &[
    "0",
    "-1",
    "1",
    "255",
    "256",
    "65535",
    "65536",
    "2147483647",
    "2147483648",
    "-2147483648",
    "4294967296",
    "9223372036854775807",
    "18446744073709551615",
    "18446744073709551616",
    "1e308",
    "1e999",
    "0.5",
    "-0",
    "null",
    "true",
    "\"\"",
    "[]",
    "{}",
    "\"9999-12-31T23:59:59Z\"",
    "\"1970-01-01T00:00:00Z\"",
    "\"\\u001b[2J\"",
    "\"\\ud800\"",
    "\"\\u202e\"",
    "\"a\\nb\"",
    "\"lost\"",
    "\"exited\"",
    "\"killed\"",
];

pub(crate) fn generate_record(random: &mut Random, corpus: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = match corpus.len() {
        0 => b"{}".to_vec(),
        count => corpus[random.below(count)].clone(),
    };
    // A value of one field becomes another.
    for _ in 0..random.below(4) {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let colons: Vec<usize> = text.match_indices(':').map(|(at, _)| at + 1).collect();
        if colons.is_empty() {
            break;
        }
        let at = colons[random.below(colons.len())];
        let end = text[at..]
            .find([',', '}', '\n'])
            .map_or(text.len(), |end| at + end);
        bytes = [&text[..at], random.pick(NUMBERS), &text[end..]]
            .concat()
            .into_bytes();
    }
    if random.one_in(3) {
        random.mutate(&mut bytes, NUMBERS);
    }
    bytes
}

pub(crate) fn check_record(bytes: &[u8]) -> Result<u64, String> {
    if let Parsed::Whole(launch) = parse_launch(bytes) {
        let event = started_event(&launch, 0, "/x");
        if event["subject"] != launch.id.to_string() {
            return Err("another job".to_owned());
        }
    }
    let _summary = parse_summary(bytes);
    if let Parsed::Whole(record) = parse_record(bytes) {
        let written = record.to_bytes();
        match parse_record(&written) {
            Parsed::Whole(again) if again.to_bytes() == written => {}
            _ => return Err("it does not read what it wrote".to_owned()),
        }
        let _fits = (record.outcome(), record.launch(), record.slim());
        let headline = notice::headline(&record);
        if headline.chars().any(forbidden) {
            return Err(format!("a control in {headline:?}"));
        }
        let _json = notice::json(&record, "tail\n");
    }
    Ok(1)
}

const SCREEN: &[u8] =
    b"\x1b\x1b\x1b[[[[;?019247HJKABCDGLMPSTX@rbhlmsu\r\n\t\x08\x07]PX^_\\\xc2\x9b\xe6\xbc\xa2\xcc\x81 ab\xe2\x80\xae";

pub(crate) fn generate_output(random: &mut Random, corpus: &[Vec<u8>]) -> Vec<u8> {
    if corpus.is_empty() || random.below(3) > 0 {
        return random.bytes(300, SCREEN);
    }
    let mut bytes = corpus[random.below(corpus.len())].clone();
    let tokens = [
        "\u{1b}[",
        "\u{1b}]0;",
        "\u{7}",
        "\u{1b}\\",
        "\r",
        "\n",
        "\u{9b}",
        "\u{202e}",
        "\u{1b}[999999999999C",
        "\u{1b}[?1049h",
        "\u{1b}[99999B",
        "\u{6f22}",
        "\u{1b}[2147483648;65536H",
        "\u{e0041}",
        "\u{1b}P",
        "password=x ",
    ];
    random.mutate(&mut bytes, &tokens);
    bytes
}

/// What no text of strangers may have when it is shown.
fn forbidden(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{061c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

pub(crate) fn check_output(bytes: &[u8]) -> Result<u64, String> {
    let clean = |what: &str, text: &str, allowed: &str| {
        let bad = text
            .chars()
            .find(|c| forbidden(*c) && !allowed.contains(*c));
        bad.map_or(Ok(()), |bad| Err(format!("{what} lets {bad:?} through")))
    };
    clean("sanitize", &sanitize(bytes), "\n\t")?;
    let text = String::from_utf8_lossy(bytes);
    clean("sanitize_line", &sanitize_line(&text), "\t")?;
    clean("shorten", &shorten(&text, 20), "")?;
    clean("escape_json", &escape_json(&text), "\n")?;
    if replace_misleading(&text).chars().count() != text.chars().count() {
        return Err("replace_misleading changes the columns".to_owned());
    }
    clean("clean_tail", &clean_tail(bytes, 200), "\n\t")?;
    let _total = (quote(bytes), redact(&text));
    // However it is cut, the lines are the same.
    let lines = |pieces: &[&[u8]]| {
        let (mut clean, mut lines) = (Clean::new(24, 80), Vec::new());
        for piece in pieces {
            clean.push(piece, |line| lines.push(line.to_owned()));
        }
        clean.finish(|line| lines.push(line.to_owned()));
        lines
    };
    let (left, right) = bytes.split_at(bytes.len() / 2);
    let whole = lines(&[bytes]);
    if whole != lines(&[left, right]) {
        return Err("other lines when it comes in two pieces".to_owned());
    }
    for line in whole {
        clean("Clean", &line, "\t")?;
    }
    let mut seen = Clean::of_file();
    seen.push_seen(left, |_| {});
    seen.settle(true, |_| {});
    seen.resize(7, 13);
    seen.push(right, |_| {});
    clean("latest", &seen.latest().unwrap_or_default(), "\t")?;
    let mut screen = Screen::new(5, 20);
    screen.push(left);
    screen.resize(9, 3);
    screen.push(right);
    clean("Screen", &screen.text(), "\n\t")?;
    let _drawn = screen.formatted();
    Newlines::default().push(bytes, &mut Vec::new());
    Ok(1)
}

pub(crate) fn generate_frames(random: &mut Random, corpus: &[Vec<u8>]) -> Vec<u8> {
    let mut out = Vec::new();
    for _ in 0..=random.below(4) {
        let number = |random: &mut Random| random.next() as i32 >> random.below(31);
        let job = random.pick(&["7f3k2m", "7f3k2mnp", "2"]);
        let most = if random.one_in(9) { 4000 } else { 40 };
        let text = random.bytes(most, b"\x01as\0 xri\xff");
        let size = Size {
            rows: random.next() as u16,
            columns: random.next() as u16 >> random.below(16),
        };
        let (serial, answer_pid, answer_fd) =
            (random.next() as u32, number(random), number(random));
        let asked = Asked {
            how: How::ALL[random.below(How::ALL.len())],
            pipe: random.one_in(2),
            stdin: random.one_in(2),
            ..Asked::plain(How::Ampersand)
        };
        let what = match random.below(4) {
            0 => What::Look,
            1 => What::Eof,
            2 => What::Resize(size),
            _ => What::Input(text.clone()),
        };
        match job.parse() {
            Ok(job) if random.one_in(2) => {
                let ask = Ask {
                    job,
                    serial,
                    answer_pid,
                    answer_fd,
                    what,
                };
                out.extend(ask.encode());
            }
            _ => {
                let register = Register {
                    asked,
                    pid: number(random),
                    answer_pid,
                    answer_fd,
                    text,
                };
                out.extend(register.encode());
            }
        }
        if random.one_in(3) && !corpus.is_empty() {
            out.extend(&corpus[random.below(corpus.len())]);
        }
    }
    if random.one_in(2) {
        let tokens = [
            "\u{1}as",
            "\u{1}asr",
            "\u{1}ask",
            "\0",
            "7f3k2m\0",
            " 80",
            "4294967296",
            "-",
            "\n",
            "1.2.3.4",
        ];
        random.mutate(&mut out, &tokens);
    }
    out
}

pub(crate) fn check_frames(bytes: &[u8]) -> Result<u64, String> {
    let mut rest = bytes.to_vec();
    while let Some(request) = Request::take(&mut rest) {
        let (mut encoded, long) = match &request {
            Request::Register(register) => (register.encode(), register.text.len() > 3000),
            Request::Ask(ask) => {
                let long = matches!(&ask.what, What::Input(input) if input.len() > 3900);
                (ask.encode(), long)
            }
            Request::KillSet(_) => continue,
        };
        if encoded.len() > 4096 {
            return Err("a frame that is too long".to_owned());
        }
        if !long && Request::take(&mut encoded) != Some(request) {
            return Err("a frame that does not come back".to_owned());
        }
    }
    if rest.len() > bytes.len() {
        return Err("more is left than came".to_owned());
    }
    if let Some(answer) = Registered::decode(bytes)
        && Registered::decode(&answer.encode()).as_ref() != Some(&answer)
    {
        return Err("an answer that does not come back".to_owned());
    }
    let text = String::from_utf8_lossy(bytes);
    if let Some(address) = Address::from_text(&text)
        && Address::from_text(&address.to_text()) != Some(address)
    {
        return Err("an address that does not come back".to_owned());
    }
    Ok(1)
}

pub(crate) fn generate_settings(random: &mut Random, corpus: &[Vec<u8>]) -> Vec<u8> {
    let values = [
        "1",
        "0",
        "on",
        "true",
        "64M",
        "99999999999999999999T",
        "18446744073709551615",
        "1h 30m",
        "-5s",
        "1e400",
        "inf",
        "nan",
        "7d",
        "100000000y",
        "'x'",
        "\"\\u202e\"",
        "[\"dir:/x\", \"exec:y\"]",
        "[[",
        "{a=1}",
        "2020-01-01",
        "pty",
        "https://u:p@h/",
        "\u{1b}[2J",
        "/bin/zsh",
        "",
        "8 KiB",
        "0.0000000001s",
        "584942417355y",
        "9223372036854775808",
    ];
    let mut file = String::new();
    let mut environment = String::new();
    for _ in 0..random.below(5) {
        let setting = &SETTINGS[random.below(SETTINGS.len())];
        let value = random.pick(&values);
        if random.one_in(2) {
            let _infallible = writeln!(file, "{} = {value}", setting.name);
        } else {
            let _infallible = writeln!(environment, "{}={value}", setting.variable);
        }
    }
    let mut bytes = [file.as_bytes(), b"\0", environment.as_bytes()].concat();
    if !corpus.is_empty() && random.one_in(3) {
        bytes = corpus[random.below(corpus.len())].clone();
    }
    if random.one_in(2) {
        random.mutate(&mut bytes, &values);
    }
    bytes
}

pub(crate) fn check_settings(bytes: &[u8]) -> Result<u64, String> {
    let mut parts = bytes.splitn(2, |byte| *byte == 0);
    let file = String::from_utf8_lossy(parts.next().unwrap_or_default()).into_owned();
    let environment: Vec<(String, OsString)> = parts
        .next()
        .unwrap_or_default()
        .split(|byte| *byte == b'\n')
        .filter_map(|line| {
            let at = line.iter().position(|byte| *byte == b'=')?;
            let name = String::from_utf8_lossy(&line[..at]).into_owned();
            Some((name, OsString::from_vec(line[at + 1..].to_vec())))
        })
        .collect();
    let find = |name: &str| {
        let mut all = environment.iter();
        all.find(|(known, _)| known == name)
            .map(|(_, value)| value.clone())
    };
    let settings = Settings::read(find, Some(&file), Checks::NONE);
    let longest = std::time::Duration::from_secs(36_500 * 86_400);
    if settings.keep > longest || settings.stop_wait > longest {
        return Err("longer than a hundred years".to_owned());
    }
    if settings.transcript_cap > i64::MAX as u64 || settings.max_bytes > i64::MAX as u64 {
        return Err("larger than any file".to_owned());
    }
    for sentence in &settings.ignored {
        if sentence.chars().any(|c| forbidden(c) && c != '\n') {
            return Err(format!("a control in {sentence:?}"));
        }
    }
    let _first = settings.check(None).is_ok();
    for (name, value) in &environment {
        let value = value.to_string_lossy();
        let _parsed = (
            duration(&value),
            size(&value),
            nearest(name),
            duration(name),
            size(name),
        );
    }
    let names = environment.iter().map(|(name, _)| name.as_str());
    let _unknown = unknown_variables(names);
    Ok(1)
}

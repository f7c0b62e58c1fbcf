//! JUnit XML: a test case for each job.

use std::collections::HashMap;
use std::fmt::Write;

use super::{Case, Report, Verdict};

pub(super) fn text(report: &Report) -> String {
    let cases = &report.cases;
    let is_failure = |case: &Case| match case.verdict {
        Verdict::Failed => true,
        Verdict::Running => report.fail_on.counts_running(),
        Verdict::Succeeded => false,
    };
    let failures = cases.iter().filter(|case| is_failure(case)).count();
    let open = |case: &&Case| case.verdict == Verdict::Running && !is_failure(case);
    let skipped = cases.iter().filter(open).count();
    let time: f64 = cases.iter().map(|case| case.seconds).sum();
    let numbers = format!(
        "tests=\"{}\" failures=\"{failures}\" errors=\"0\" skipped=\"{skipped}\" time=\"{time:.3}\"",
        cases.len()
    );
    let suite = report.session.as_deref().unwrap_or("background jobs");
    let started = cases.iter().map(|case| case.started_at.as_str()).min();
    let started = started.map_or_else(String::new, |at| {
        format!(" timestamp=\"{}\"", escaped(at.trim_end_matches('Z')))
    });
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let _ = writeln!(xml, "<testsuites name=\"agent-sh\" {numbers}>");
    let suite = escaped(suite);
    let _ = writeln!(xml, "  <testsuite name=\"{suite}\" {numbers}{started}>");
    let mut same: HashMap<&str, usize> = HashMap::new();
    for case in cases {
        *same.entry(case.label()).or_default() += 1;
    }
    for case in cases {
        let is_alone = same.get(case.label()) == Some(&1);
        add(&mut xml, case, is_alone, is_failure(case));
    }
    xml.push_str("  </testsuite>\n</testsuites>\n");
    xml
}

fn add(xml: &mut String, case: &Case, is_alone: bool, is_failure: bool) {
    // Readers compare cases of different runs by their names, so an id stands only where it has to.
    let name = if is_alone {
        case.label().to_owned()
    } else {
        format!("{} ({})", case.label(), case.id)
    };
    let (name, seconds) = (escaped(&name), case.seconds);
    let _ = writeln!(
        xml,
        "    <testcase name=\"{name}\" classname=\"agent-sh\" time=\"{seconds:.3}\">"
    );
    let message = escaped(&case.headline());
    if is_failure {
        let kind = case.state;
        let text = escaped(&format!("{}\n{}", case.command, case.tail));
        let _ = writeln!(
            xml,
            "      <failure message=\"{message}\" type=\"{kind}\">{text}</failure>"
        );
    } else if case.verdict == Verdict::Running {
        let _ = writeln!(xml, "      <skipped message=\"{message}\"/>");
    }
    let said = escaped(&format!("{}: {}", case.headline(), case.command));
    let _ = writeln!(xml, "      <system-out>{said}</system-out>");
    xml.push_str("    </testcase>\n");
}

/// Text for content and attributes. What XML 1.0 has no place for is left out, even as a reference.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&apos;"),
            '\t' | '\n' | '\r' => {
                let _ = write!(safe, "&#{};", u32::from(letter));
            }
            '\u{20}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'.. => safe.push(letter),
            _ => {}
        }
    }
    // On stdout GitHub's runner would read it for a command.
    safe.replace("##[", "##&#91;")
}

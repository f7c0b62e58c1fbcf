//! `show --from`: everything that the stream knows of a job.

use std::fmt::Write;

use crate::cli::show::Show;
use crate::context::Context;
use crate::error::Result;
use crate::fleet::job::{self, Jobs};
use crate::fleet::{Extent, failed};
use crate::message::{self, Colour, Palette};
use crate::sys::clock;
use crate::text;

pub(crate) fn show(context: &Context, show: &Show) -> Result<u8> {
    let mut source = show.fleet.open(Extent::Latest)?;
    let mut jobs = Jobs::default();
    jobs.take(source.read(None).map_err(failed)?);
    let job = jobs.find(&show.job).map_err(failed)?;
    let now = clock::wall();
    if show.json {
        let json = format!("{:#}\n", job.facts(now));
        return message::out(&text::escape_json(&json)).map(|()| 0);
    }
    let palette = Palette::of_stdout(|name| context.env(name));
    let mut out = format!("job {} {}\n", job.id, job.ending(now));
    for (label, value) in job::lines(job, now) {
        let value = text::sanitize(value.as_bytes()).replace('\n', "\n              ");
        let label = palette.paint(Colour::Dim, &format!("  {label:<11}"));
        let _ = writeln!(out, "{label} {value}");
    }
    message::out(&out).map(|()| 0)
}

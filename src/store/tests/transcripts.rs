//! What a job wrote.

use super::*;

fn read_all(view: &JobView, reading: Reading) -> Vec<u8> {
    let mut bytes = Vec::new();
    view.read_transcript(reading)
        .unwrap()
        .read_to_end(&mut bytes)
        .unwrap();
    bytes
}

/// Where bytes are missing, and how many.
fn gaps(view: &JobView) -> Vec<(u64, u64)> {
    let mut reader = view.read_transcript(Reading::Marked).unwrap();
    let (mut found, mut read) = (Vec::new(), 0);
    loop {
        match reader.next(&mut [0; 4096]).unwrap() {
            Chunk::Bytes(count) => read += count as u64,
            Chunk::Gap(bytes) => found.push((read, bytes)),
            Chunk::End => return found,
        }
    }
}

#[test]
fn transcripts_know_when_they_were_written() {
    let (_keep, store) = store();
    let mut job = store.create_job(draft()).unwrap();
    assert!(view(&store, job.id()).times().is_empty());
    job.transcript().write(b"first\n");
    job.transcript().resized(40, 132);
    job.transcript().write(b"soon after\n");
    let times = view(&store, job.id()).times();
    assert_eq!((times[0].offset, times[0].size), (0, None));
    assert_eq!((times[1].offset, times[1].size), (6, Some((40, 132))));
    let now = moment().0.duration_since(std::time::UNIX_EPOCH).unwrap();
    assert!(
        now.as_millis() as u64 - times[0].at_ms < 60_000,
        "{times:?}"
    );
    // What follows at once needs no mark of its own.
    assert!(times.len() <= 3, "{times:?}");
}

#[test]
fn transcripts_keep_every_byte_below_the_cap() {
    let (_keep, store) = store();
    for (cap, size) in [
        (64 << 20, 300_000),
        (1 << 20, 1 << 20),
        (65_536, 65_536),
        (65_536, 8192),
        (65_536, 8193),
        (9000, 9000),
    ] {
        let mut draft = draft();
        draft.transcript_cap = cap;
        let mut job = store.create_job(draft).unwrap();
        assert!(!job.dir().join("out").exists());
        let data: Vec<u8> = (0..size).map(|at| (at * 7 + at / 251) as u8).collect();
        for piece in data.chunks(4093) {
            job.transcript().write(piece);
        }
        let facts = job.transcript().facts();
        // The last segments may not divide evenly; what is lost then is less than a segment.
        let kept = facts.bytes_kept as usize;
        assert!(kept == size || facts.capped, "{cap} {size} {kept}");
        let live = view(&store, job.id());
        assert_eq!(live.bytes_total(), size as u64, "{cap}");
        if !facts.capped {
            assert_eq!(read_all(&live, Reading::Raw), data);
            assert_eq!(read_all(&live, Reading::Marked), data);
        }
        assert_eq!(job.transcript().tail(100), data[size - 100..]);
        assert_eq!(live.tail(100), data[size - 100..]);
    }
}

#[test]
fn transcripts_keep_head_and_tail_above_the_cap() {
    let (_keep, store) = store();
    for cap in [1u64 << 20, 100_000, 20_000, 5_000, 100] {
        let mut draft = draft();
        draft.transcript_cap = cap;
        let mut job = store.create_job(draft).unwrap();
        let data: Vec<u8> = (0..400_000u32 + 3 * cap as u32)
            .map(|at| (at / 3) as u8)
            .collect();
        for piece in data.chunks(65_536) {
            job.transcript().write(piece);
        }
        let facts = job.transcript().facts();
        assert!(facts.capped && facts.bytes_kept <= cap, "{cap}: {facts:?}");
        assert_eq!(facts.bytes_total, data.len() as u64);
        let on_disk: u64 = std::fs::read_dir(job.dir())
            .unwrap()
            .map(std::result::Result::unwrap)
            .filter(|entry| entry.file_name().to_string_lossy().starts_with("out"))
            .map(|entry| entry.metadata().unwrap().len())
            .sum();
        assert_eq!(on_disk, facts.bytes_kept);
        let check = |view: &JobView| {
            let raw = read_all(view, Reading::Raw);
            let head = (cap / 8) as usize;
            assert_eq!(raw.len() as u64, facts.bytes_kept);
            assert_eq!(raw[..head], data[..head]);
            let tail = raw.len() - head;
            assert_eq!(raw[head..], data[data.len() - tail..]);
            let gap = (data.len() - raw.len()) as u64;
            assert_eq!(gaps(view), [(cap / 8, gap)], "{cap}");
            let end = data.len() as u64;
            for most in [1, 80, cap / 2].map(|most| most.min(tail as u64)) {
                let mut reader = view.read_transcript(Reading::Marked).unwrap();
                assert!(reader.skip_to_last(most));
                let mut last = Vec::new();
                reader.read_to_end(&mut last).unwrap();
                assert!(last == data[data.len() - most as usize..], "{cap} {most}");
                let mut reader = view.read_transcript(Reading::Marked).unwrap();
                reader.skip_to(end - most);
                assert_eq!(reader.offset(), end - most);
                let mut again = Vec::new();
                reader.read_to_end(&mut again).unwrap();
                assert!(again == last, "{cap} {most}");
            }
            assert!(
                !view
                    .read_transcript(Reading::Raw)
                    .unwrap()
                    .skip_to_last(end)
            );
            assert_eq!(view.bytes_total(), data.len() as u64);
        };
        check(&view(&store, job.id()));
        let mut end = exited(0);
        end.output = facts;
        job.commit(&end).unwrap();
        check(&view(&store, job.id()));
    }
}

#[test]
fn a_transcript_is_followed_while_it_grows() {
    let (_keep, store) = store();
    let mut draft = draft();
    draft.transcript_cap = 64 * 1024;
    let mut job = store.create_job(draft).unwrap();
    let mut reader = view(&store, job.id())
        .read_transcript(Reading::Raw)
        .unwrap();
    let mut seen = Vec::<u8>::new();
    let mut all = Vec::new();
    for round in 0..60u8 {
        let piece = vec![round; 1000];
        job.transcript().write(&piece);
        all.extend(piece);
        let mut buffer = [0; 700];
        loop {
            match reader.read(&mut buffer).unwrap() {
                0 => break,
                count => seen.extend(&buffer[..count]),
            }
        }
        assert_eq!(seen, all, "round {round}");
    }
}

#[test]
fn nothing_is_kept_with_a_cap_of_zero() {
    let (_keep, store) = store();
    let mut draft = draft();
    draft.transcript_cap = 0;
    let mut job = store.create_job(draft).unwrap();
    job.transcript().write(b"secret");
    let facts = job.transcript().facts();
    assert_eq!((facts.bytes_total, facts.bytes_kept), (6, 0));
    assert!(!job.dir().join("out").exists());
}

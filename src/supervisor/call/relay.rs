//! The relay: what the foreground writes goes from its pipes to the harness, and whoever writes more
//! than is read waits, as with the harness's own pipe.

use std::os::fd::RawFd;
use std::time::Duration;

use nix::sys::epoll::{Epoll, EpollFlags};

use super::stream::{Buffer, Feed, Sink};
use crate::sys::fds::{self, Object};

pub(in crate::supervisor) struct Relay {
    sinks: Vec<Sink>,
    /// `None` for those that have ended; the loop knows them by their place.
    feeds: Vec<Option<Feed>>,
    /// The last output of feeds that have ended.
    last_tail: Vec<u8>,
}

/// What became of those who write to a sink. Their feeds follow it; the job of `run --wait` is to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::supervisor) enum Flow {
    Unchanged,
    /// They are to wait until the harness has read.
    Hold,
    GoOn,
}

/// What a feed gave; how many bytes stand in the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::supervisor) enum Reading {
    /// Nothing for the moment, or never again.
    Nothing,
    Interrupted,
    /// For a sink.
    Foreground {
        sink: usize,
        count: usize,
    },
    /// For a job.
    Job {
        owner: usize,
        count: usize,
    },
}

impl Relay {
    pub(in crate::supervisor) fn new(sinks: Vec<Sink>, feeds: Vec<Option<Feed>>) -> Self {
        Self {
            sinks,
            feeds,
            last_tail: Vec::new(),
        }
    }

    pub(in crate::supervisor) fn descriptors(&self) -> impl Iterator<Item = RawFd> {
        let sinks = self.sinks.iter().flat_map(Sink::descriptors);
        sinks.chain(self.feeds.iter().flatten().map(Feed::descriptor))
    }

    pub(in crate::supervisor) fn watch(&mut self, epoll: &Epoll) {
        self.sinks.iter_mut().for_each(|sink| sink.watch(epoll));
        let feeds = self.feeds.iter_mut().flatten();
        feeds.for_each(|feed| feed.listen(epoll, true));
    }

    /// How many streams the harness tells apart.
    pub(in crate::supervisor) fn sink_count(&self) -> usize {
        self.sinks.len()
    }

    pub(in crate::supervisor) fn feed_count(&self) -> usize {
        self.feeds.len()
    }

    /// `None`: there is no such sink any more.
    pub(in crate::supervisor) fn is_terminal(&self, sink: usize) -> Option<bool> {
        self.sinks.get(sink).map(|sink| sink.is_terminal)
    }

    /// What a sink leads to.
    pub(in crate::supervisor) fn sink_object(&self, sink: usize) -> Option<Object> {
        let sink = self.sinks.get(sink)?;
        fds::object(sink.original())
    }

    /// Whether the foreground has to wait until the harness has read.
    pub(in crate::supervisor) fn is_full(&self) -> bool {
        self.sinks.iter().any(Sink::is_full)
    }

    /// Whether anything waits for the harness, be it a job's.
    pub(in crate::supervisor) fn is_behind(&self) -> bool {
        self.sinks.iter().any(Sink::is_behind)
    }

    /// Whether anything waits for a harness that reads on: within `patience` it took some.
    pub(in crate::supervisor) fn is_catching_up(&self, patience: Duration) -> bool {
        let behind = |sink: &Sink| sink.is_behind() && !sink.has_stalled(patience);
        self.sinks.iter().any(behind)
    }

    /// Whether jobs wait for the harness.
    pub(in crate::supervisor) fn holds_jobs(&self) -> bool {
        self.sinks.iter().any(Sink::holds_jobs)
    }

    /// Whether some process may still write what belongs to the call alone.
    pub(in crate::supervisor) fn has_open_feeds(&self) -> bool {
        let mut feeds = self.feeds.iter().flatten();
        feeds.any(|feed| feed.owner.is_none())
    }

    // --- output on its way ---

    /// The loop tells of a sink: it has room, or nobody reads it any more.
    pub(in crate::supervisor) fn sink_ready(
        &mut self,
        index: usize,
        flags: EpollFlags,
        epoll: &Epoll,
    ) -> Flow {
        let Some(sink) = self.sinks.get_mut(index) else {
            return Flow::Unchanged;
        };
        if flags.intersects(EpollFlags::EPOLLERR | EpollFlags::EPOLLHUP) {
            sink.gone = true;
        } else {
            sink.flush(epoll);
        }
        if sink.gone {
            return self.reader_left(index, epoll);
        }
        if sink.is_full() {
            return Flow::Unchanged;
        }
        self.listen(index, epoll, true);
        Flow::GoOn
    }

    /// Writes output of the foreground, all of which has to arrive.
    pub(in crate::supervisor) fn write(
        &mut self,
        index: usize,
        bytes: &[u8],
        epoll: &Epoll,
    ) -> Flow {
        let Some(sink) = self.sinks.get_mut(index) else {
            return Flow::Unchanged;
        };
        sink.push(bytes, epoll);
        if sink.gone {
            return self.reader_left(index, epoll);
        }
        if !sink.is_full() {
            return Flow::Unchanged;
        }
        self.listen(index, epoll, false);
        Flow::Hold
    }

    /// Offers output of a job, which is kept elsewhere: a background job never holds the call. Gives
    /// whether the job should wait a little.
    pub(in crate::supervisor) fn offer(
        &mut self,
        index: usize,
        bytes: &[u8],
        epoll: &Epoll,
    ) -> (Flow, bool) {
        let Some(sink) = self.sinks.get_mut(index) else {
            return (Flow::Unchanged, false);
        };
        let wait = sink.offer(bytes, epoll);
        if sink.gone {
            return (self.reader_left(index, epoll), false);
        }
        (Flow::Unchanged, wait)
    }

    /// Nobody reads any more: whoever writes next must get SIGPIPE, as without us.
    fn reader_left(&mut self, index: usize, epoll: &Epoll) -> Flow {
        self.sinks[index].unwatch(epoll);
        for feed in &mut self.feeds {
            feed.take_if(|feed| feed.sink == index && feed.owner.is_none());
        }
        self.listen(index, epoll, true);
        Flow::GoOn
    }

    /// Holds back, or goes on with, what is written to a sink.
    fn listen(&mut self, sink: usize, epoll: &Epoll, on: bool) {
        let feeds = self.feeds.iter_mut().flatten();
        for feed in feeds.filter(|feed| feed.sink == sink) {
            feed.listen(epoll, on);
        }
    }

    /// Reads a feed once.
    pub(in crate::supervisor) fn read(
        &mut self,
        index: usize,
        buffer: &mut Buffer,
        epoll: &Epoll,
    ) -> Reading {
        let Some(Some(feed)) = self.feeds.get_mut(index) else {
            return Reading::Nothing;
        };
        match feed.read(buffer) {
            Ok(0) => {
                feed.listen(epoll, false);
                self.last_tail = std::mem::take(&mut feed.tail);
                self.feeds[index] = None;
                Reading::Nothing
            }
            Ok(count) => match feed.owner {
                Some(owner) => Reading::Job { owner, count },
                None => {
                    feed.remember(buffer.bytes(count));
                    let sink = feed.sink;
                    Reading::Foreground { sink, count }
                }
            },
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => Reading::Interrupted,
            Err(_) => Reading::Nothing,
        }
    }

    /// Whether the sink of a feed has to be read first.
    pub(in crate::supervisor) fn is_feed_held(&self, index: usize) -> bool {
        let feed = self.feeds[index].as_ref();
        feed.is_some_and(|feed| self.sinks.get(feed.sink).is_some_and(Sink::is_full))
    }

    // --- whose a stream is ---

    pub(in crate::supervisor) fn is_feed(&self, object: Option<Object>) -> bool {
        let mut feeds = self.feeds.iter().flatten();
        feeds.any(|feed| Some(feed.object) == object)
    }

    /// The sink of a feed, and the job that has the feed by now.
    pub(in crate::supervisor) fn feed_of(&self, object: Object) -> Option<(usize, Option<usize>)> {
        let mut feeds = self.feeds.iter().flatten();
        let feed = feeds.find(|feed| feed.object == object)?;
        Some((feed.sink, feed.owner))
    }

    /// The job that has the first feed among these streams.
    pub(in crate::supervisor) fn owner_among(&self, streams: &[Option<Object>]) -> Option<usize> {
        let mut feeds = self.feeds.iter().flatten();
        feeds
            .find(|feed| streams.contains(&Some(feed.object)))?
            .owner
    }

    /// The sink that a process was handed through. Only the very same open file is inheritance; opened
    /// anew it is a redirection.
    pub(in crate::supervisor) fn sink_of(
        &self,
        pid: i32,
        fd: i32,
        object: Object,
    ) -> Option<usize> {
        self.sinks.iter().position(|sink| {
            fds::object(sink.original()) == Some(object)
                && fds::is_same_description(sink.original(), pid, fd).unwrap_or(sink.is_terminal)
        })
    }

    // --- the end of the call ---

    /// The last that the foreground wrote.
    pub(in crate::supervisor) fn take_tail(&mut self) -> Vec<u8> {
        let feeds = self.feeds.iter().flatten();
        let tail: Vec<u8> = feeds.flat_map(|feed| feed.tail.iter().copied()).collect();
        if tail.is_empty() {
            std::mem::take(&mut self.last_tail)
        } else {
            tail
        }
    }

    /// What is written to these feeds from now on is a job's, unless it is another's already.
    pub(in crate::supervisor) fn give(&mut self, streams: &[Option<Object>], owner: usize) {
        let free = self.feeds.iter_mut().flatten();
        let free = free.filter(|feed| feed.owner.is_none());
        for feed in free.filter(|feed| streams.contains(&Some(feed.object))) {
            feed.owner = Some(owner);
        }
    }

    /// All of it is a job's. What the harness has not taken yet is kept for its transcript; else a
    /// reminder of what it saw last.
    pub(in crate::supervisor) fn give_all(&mut self, owner: usize) -> Vec<u8> {
        let mut kept = Vec::new();
        for feed in self.feeds.iter_mut().flatten() {
            let pending = self.sinks.get_mut(feed.sink).map(Sink::take_pending);
            match pending.filter(|pending| !pending.is_empty()) {
                Some(pending) => kept.extend(pending),
                None => kept.extend(&feed.tail),
            }
            feed.owner = Some(owner);
        }
        kept
    }

    /// What nobody has is given to `owner`. Without one it is read and thrown away for the sake of
    /// whoever `may_write` there and must not die of it; else it is closed.
    pub(in crate::supervisor) fn give_rest(
        &mut self,
        owner: Option<usize>,
        may_write: bool,
        epoll: &Epoll,
    ) {
        for slot in &mut self.feeds {
            let Some(feed) = slot else { continue };
            if feed.owner.is_none() {
                feed.owner = owner;
            }
            if feed.owner.is_some() || may_write {
                feed.listen(epoll, true);
            } else {
                *slot = None;
            }
        }
    }

    /// Nobody waits for the rest of the output any more.
    pub(in crate::supervisor) fn drop_output(&mut self) {
        self.sinks.iter_mut().for_each(|sink| sink.gone = true);
    }

    /// Lets go of what is the harness's.
    pub(in crate::supervisor) fn close_sinks(&mut self, epoll: &Epoll) {
        for sink in &mut self.sinks {
            sink.unwatch(epoll);
        }
        self.sinks.clear();
    }
}

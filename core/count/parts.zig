//! A long document and a pattern of any kind → parts for several threads, joined to the whole.
//!
//! A pattern without its own scanner has no proven cuts. A part starts at an estimated start. It
//! keeps the starts of its first pretokens and counts the others. The part before it ends where a
//! pretoken starts. If that is one of the kept starts, both agree from there on, because the
//! pretokens after a start do not depend on the text before it. Otherwise the counts of the part
//! are subtracted, and the gap is counted instead. A wrong estimate costs only time.

const std = @import("std");
const pretokens = @import("../pretokens.zig");
const Span = pretokens.Span;
const tallies = @import("tally.zig");
const Tally = tallies.Tally;
const Error = tallies.Error;

/// The number of pretokens that a part keeps. Two scans of the same text agree after a few.
const held_max = 64;

pub const Part = struct {
    document: []const u8,
    from: usize,
    /// Pretokens that start here or later belong to the next part.
    limit: usize,
    /// The end of the last pretoken, where the next part continues.
    end: usize = 0,
    held: [held_max]Span = undefined,
    held_len: usize = 0,
    /// The tables with the counts of the others.
    tally: ?*Tally = null,

    /// Scans the part and counts all pretokens that are not kept.
    pub fn count(self: *Part, tally: *Tally, scheme: *const pretokens.Scheme) Error!void {
        var pieces: pretokens.Pretokens = .init(tally.gpa, scheme, self.document);
        defer pieces.deinit();
        pieces.index = self.from;
        self.end = self.from;
        while (self.held_len < held_max and self.end < self.limit) {
            const span = try pieces.next() orelse {
                self.end = self.document.len;
                return;
            };
            if (span.start >= self.limit) {
                self.end = span.start;
                return;
            }
            self.held[self.held_len] = span;
            self.held_len += 1;
            self.end = span.end;
        }
        if (self.end >= self.limit) return;
        self.tally = tally;
        self.end = try eachBatch(tally, scheme, self.document, self.end, self.limit, .add);
    }

    /// Subtracts the counts of the part.
    fn takeOff(self: *Part, scheme: *const pretokens.Scheme) Error!void {
        const tally = self.tally orelse return;
        const from = self.held[held_max - 1].end;
        _ = try eachBatch(tally, scheme, self.document, from, self.limit, .take_off);
    }

    /// Returns the index of the kept pretoken that starts at an offset.
    fn heldAt(self: *const Part, start: usize) ?usize {
        for (self.held[0..self.held_len], 0..) |span, index| {
            if (span.start == start) return index;
        }
        return null;
    }

    fn addHeld(self: *const Part, tally: *Tally, first: usize) Error!void {
        for (self.held[first..self.held_len]) |span| {
            try tally.addAlone(self.document[span.start..span.end]);
        }
    }

    /// Joins the part to the parts before it, which end at `end`. Missing pretokens between them
    /// are added to `tally`, and wrong ones are subtracted. Returns the end of the part.
    pub fn join(
        self: *Part,
        tally: *Tally,
        scheme: *const pretokens.Scheme,
        end: usize,
    ) Error!usize {
        var pieces: pretokens.Pretokens = .init(tally.gpa, scheme, self.document);
        defer pieces.deinit();
        pieces.index = end;
        for (0..2 * held_max) |_| {
            // At most once per kept pretoken, or twice if scans differ.
            if (self.heldAt(pieces.index)) |first| {
                try self.addHeld(tally, first);
                return self.end;
            }
            if (pieces.index >= self.limit) break;
            const span = try pieces.next() orelse break;
            if (self.heldAt(span.start)) |first| {
                try self.addHeld(tally, first);
                return self.end;
            }
            if (span.start >= self.limit) {
                pieces.index = span.start;
                break;
            }
            try tally.addAlone(self.document[span.start..span.end]);
        }
        try self.takeOff(scheme);
        if (pieces.index >= self.limit) return pieces.index;
        return eachBatch(tally, scheme, self.document, pieces.index, self.limit, .add);
    }
};

/// Adds or subtracts the pretokens that start from `from` and before `limit`. Returns the start of
/// the next pretoken.
fn eachBatch(
    tally: *Tally,
    scheme: *const pretokens.Scheme,
    document: []const u8,
    from: usize,
    limit: usize,
    comptime what: enum { add, take_off },
) Error!usize {
    var sweep: pretokens.Sweep = undefined;
    sweep.init(tally.gpa, scheme, document);
    defer sweep.deinit();
    sweep.index = from;
    while (try sweep.next()) |batch| {
        if (batch.start >= limit) return batch.start;
        try tally.pollAfter(batch.len);
        const taken = batch.before(limit);
        switch (what) {
            .add => try tally.addBatch(document, taken),
            .take_off => {
                var start: usize = taken.start;
                if (taken.ends.len == 0) tally.takeOff(document[start..][0..taken.len]);
                for (taken.ends) |end| {
                    tally.takeOff(document[start .. taken.start + end]);
                    start = taken.start + end;
                }
            },
        }
        const end = taken.start + taken.len;
        if (end >= limit) return end;
    }
    return document.len;
}

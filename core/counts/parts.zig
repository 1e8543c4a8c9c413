//! A long document and a pattern of any kind → parts for several threads, joined to the whole.
//!
//! Of a pattern that has no scanner of its own nobody knows where a pretoken starts for certain. So
//! a part starts where one probably does, holds its first pretokens back, and counts the rest. The
//! part before it ends at a start; if that is one of those held back, the two agree from there on,
//! since what follows a start does not depend on how it was reached. If they never meet, all that
//! the part has counted is taken off again, and the gap is counted instead: a guess can cost time,
//! never a count.

const std = @import("std");
const pretokens = @import("../pretokens.zig");
const Span = pretokens.Span;
const tallies = @import("tally.zig");
const Tally = tallies.Tally;
const Error = tallies.Error;

/// Pretokens that a part holds back: two scans of the same text meet after a few.
const held_max = 64;

pub const Part = struct {
    document: []const u8,
    from: usize,
    /// Pretokens that start here or later belong to the next part.
    limit: usize,
    /// From where the next part goes on.
    end: usize = 0,
    held: [held_max]Span = undefined,
    held_len: usize = 0,
    /// Who has counted the rest.
    tally: ?*Tally = null,

    /// Scans the part; all but what is held back is counted.
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

    /// Takes off what was counted.
    fn takeOff(self: *Part, scheme: *const pretokens.Scheme) Error!void {
        const tally = self.tally orelse return;
        const from = self.held[held_max - 1].end;
        _ = try eachBatch(tally, scheme, self.document, from, self.limit, .take_off);
    }

    /// Which of those held back starts at a place.
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

    /// Joins the part to those before it, which end at `end`. What is missing between them goes to
    /// `tally`, and what was counted in vain is taken off. Returns where it ends.
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
            // At most once for each that is held back, or twice where scans differ.
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

/// Counts, or takes off, the pretokens that start from `from` to before `limit`. Returns from where
/// the next one is to be looked for.
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
        const taken = before(batch, limit);
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

/// The pretokens of a batch that start before `limit`.
fn before(batch: pretokens.Batch, limit: usize) pretokens.Batch {
    var taken = batch;
    for (batch.ends, 1..) |end, count| {
        if (batch.start + end < limit) continue;
        taken.ends = batch.ends[0..count];
        taken.len = end;
        break;
    }
    return taken;
}

/// A place at or behind `nominal` where a part may start: before a blank that follows a word, or
/// else at any character.
pub fn startNear(document: []const u8, nominal: usize) usize {
    const last = @min(nominal + 1024, document.len);
    for (nominal..last) |index| {
        if (document[index] == ' ' and std.ascii.isAlphanumeric(document[index - 1])) return index;
    }
    for (nominal..last) |index| if (document[index] & 0xC0 != 0x80) return index;
    return last;
}

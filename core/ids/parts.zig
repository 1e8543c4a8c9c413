//! A long document → parts for several threads, and their ids joined to those of the whole.
//!
//! A part starts at a place that is probably the start of a pretoken, but nobody knows before all
//! text to its left is scanned. So each part is encoded from its start on, remembers where its
//! first pretokens started, and goes on behind its limit to the end of its last pretoken. If that
//! is a start of the next part too, everything from there on is the same, since what follows a
//! start depends only on the text from there on. If not, the gap is encoded until they meet.
//!
//! A run without an end in sight is left at the limit itself where no token covers the seam there.

const std = @import("std");
const ids = @import("../ids.zig");
const pretokens = @import("../pretokens.zig");
const unicode = @import("../unicode.zig");

/// Starts that a part remembers: two scans of the same text meet after a few.
const trace_len = 64;

pub const Part = struct {
    document: []const u8,
    from: usize,
    /// Pretokens that start here or later belong to the next part.
    limit: usize,
    /// Where the last pretoken ends.
    end: usize = 0,
    /// The first starts, and how many ids come before each.
    starts: [trace_len]usize = undefined,
    before: [trace_len]usize = undefined,
    traced: usize = 0,

    /// How many ids come before a start, if it is one that the part remembers.
    fn idsBefore(self: *const Part, start: usize) ?usize {
        const index = std.mem.indexOfScalar(usize, self.starts[0..self.traced], start);
        return if (index) |found| self.before[found] else null;
    }

    /// Encodes the part; `sink` is a `List` or a `Count` and empty.
    pub fn encode(self: *Part, encoder: *ids.Encoder, sink: anytype) ids.Error!void {
        // Not all of the text behind the limit: a run without an end would be scanned by every
        // part before it.
        const is_program = encoder.tokenizer.scheme == .program;
        const far = if (is_program) self.document.len else self.limit + margin;
        const near = @min(far, self.document.len);
        if (try self.encodeIn(encoder, self.document[0..near], sink)) return;
        sink.reset();
        const done = try self.encodeIn(encoder, self.document, sink);
        std.debug.assert(done);
    }

    /// The same with `text`, the document or its beginning; false when what lies behind that would
    /// make a difference.
    fn encodeIn(
        self: *Part,
        encoder: *ids.Encoder,
        text: []const u8,
        sink: anytype,
    ) ids.Error!bool {
        var pieces: pretokens.Pretokens = .init(encoder.gpa, &encoder.tokenizer.scheme, text);
        defer pieces.deinit();
        pieces.index = self.from;
        self.end = self.from;
        self.traced = 0;
        while (self.traced < trace_len and self.end < self.limit) {
            const span = try pieces.next() orelse {
                self.end = text.len;
                break;
            };
            // A run that this part neither begins nor ends belongs to the one that begins it.
            if (self.from > 0 and self.traced == 0 and span.end > self.limit and
                !try canLeaveAt(encoder, text, span, self.limit)) return true;
            self.starts[self.traced] = span.start;
            self.before[self.traced] = sink.total();
            self.traced += 1;
            self.end = try encodeSpan(encoder, text, span, self.limit, sink);
        }
        if (self.end < self.limit) {
            self.end = try encodeFrom(encoder, text, self.end, self.limit, sink);
        }
        if (text.len == self.document.len or self.end == self.limit) return true;
        return pretokens.reachOf(&encoder.tokenizer.scheme, text, self.end, null) <= text.len;
    }
};

/// How much text behind its limit a part looks at.
const margin = 1 << 16;

/// Encodes one pretoken, or as much of it as comes before `limit` if it can be left there.
/// Returns where what was encoded ends.
fn encodeSpan(
    encoder: *ids.Encoder,
    document: []const u8,
    span: pretokens.Span,
    limit: usize,
    sink: anytype,
) ids.Error!usize {
    const end = if (try canLeaveAt(encoder, document, span, limit)) limit else span.end;
    try encoder.pollAfter(end - span.start);
    try encoder.encodePretoken(document[span.start..end], sink);
    return end;
}

/// Encodes the pretokens that start from `from` to before `limit`, and returns where they end.
fn encodeFrom(
    encoder: *ids.Encoder,
    document: []const u8,
    from: usize,
    limit: usize,
    sink: anytype,
) ids.Error!usize {
    var sweep: pretokens.Sweep = undefined;
    sweep.init(encoder.gpa, &encoder.tokenizer.scheme, document);
    defer sweep.deinit();
    sweep.index = from;
    while (try sweep.next()) |batch| {
        if (batch.start >= limit) return batch.start;
        var end = batch.start + batch.len;
        if (batch.ends.len == 0) {
            const span: pretokens.Span = .{ .start = batch.start, .end = end };
            end = try encodeSpan(encoder, document, span, limit, sink);
        } else {
            const taken = before(batch, limit);
            end = batch.start + taken.len;
            try encoder.encodeBatch(taken, sink);
        }
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

/// Whether a long pretoken can be left at `limit`: it is a run of letters that are all the same to
/// every scheme, so what is left of it ends where it would end itself, and no token covers the
/// seam.
fn canLeaveAt(
    encoder: *ids.Encoder,
    document: []const u8,
    span: pretokens.Span,
    limit: usize,
) ids.Error!bool {
    if (limit >= span.end or limit - span.start <= pretokens.piece_len_max) return false;
    const tokenizer = encoder.tokenizer;
    if (!tokenizer.vocabulary.is_closed or tokenizer.scheme == .program) return false;
    if (!try encoder.isFreeSeam(document, limit)) return false;
    // The first character may be one that stands before a word.
    var index = span.start + unicode.decode(document, span.start).len;
    while (index <= limit) {
        const char = unicode.decode(document, index);
        const class = unicode.class(char.code_point);
        if (!class.letter or !class.upper or !class.lower) return false;
        index += char.len;
    }
    return true;
}

/// A place at or behind `nominal` where a part can start: before a blank that follows a word, or
/// at a seam in a run of wide characters, or else at any character.
pub fn startNear(encoder: *ids.Encoder, document: []const u8, nominal: usize) ids.Error!usize {
    const last = @min(nominal + 1024, document.len);
    for (nominal..last) |index| {
        if (document[index] == ' ' and std.ascii.isAlphanumeric(document[index - 1])) return index;
    }
    for (nominal..last) |index| {
        if (document[index] < 0xE0 or document[index - 1] < 0x80) continue;
        if (try encoder.isFreeSeam(document, index)) return index;
    }
    for (nominal..last) |index| if (document[index] & 0xC0 != 0x80) return index;
    return last;
}

/// What joins a part to those before it: ids that were missing, and how many are not wanted.
pub const Joint = struct { end: usize, skipped: usize };

/// Joins a part to the encoding that ends at `end`; ids that are missing between them go to
/// `bridge`, a sink like that of the part, which has `total` ids.
pub fn join(
    encoder: *ids.Encoder,
    part: *const Part,
    end: usize,
    total: usize,
    bridge: anytype,
) ids.Error!Joint {
    var joint = try meet(encoder, part, end, total, bridge);
    const document = part.document;
    // The last part may have left a run to the one that begins it.
    if (part.limit == document.len and joint.end < document.len) {
        joint.end = try encodeFrom(encoder, document, joint.end, document.len, bridge);
    }
    return joint;
}

fn meet(
    encoder: *ids.Encoder,
    part: *const Part,
    end: usize,
    total: usize,
    bridge: anytype,
) ids.Error!Joint {
    var pieces: pretokens.Pretokens =
        .init(encoder.gpa, &encoder.tokenizer.scheme, part.document);
    defer pieces.deinit();
    pieces.index = end;
    for (0..2 * trace_len) |_| {
        // At most once for each start that is remembered, or twice where scans differ.
        if (part.idsBefore(pieces.index)) |skipped| return .{ .end = part.end, .skipped = skipped };
        if (pieces.index >= part.end) return .{ .end = pieces.index, .skipped = total };
        const span = try pieces.next() orelse
            return .{ .end = part.document.len, .skipped = total };
        if (part.idsBefore(span.start)) |skipped| return .{ .end = part.end, .skipped = skipped };
        try encoder.encodePretoken(part.document[span.start..span.end], bridge);
    }
    // They do not meet: the part is encoded again, from where it really starts.
    const again = try encodeFrom(encoder, part.document, pieces.index, part.end, bridge);
    return .{ .end = again, .skipped = total };
}

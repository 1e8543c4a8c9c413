//! A long document → parts for several threads, and their ids joined to those of the whole.
//!
//! A part starts at a place that is probably the start of a pretoken, but nobody knows before all
//! text to its left is scanned. So each part is encoded from its start on, and goes on behind its
//! limit to the end of its last pretoken. If that is where the next part starts, everything from
//! there on is the same, since what follows a start depends only on the text from there on. If not,
//! the gap is encoded until the two have a start in common.
//!
//! A run without an end in sight is left at the limit itself where no token covers the seam there.

const std = @import("std");
const ids = @import("../ids.zig");
const pretokens = @import("../pretokens.zig");
const unicode = @import("../unicode.zig");

/// Starts that are compared: two scans of the same text meet after a few.
const trace_len = 64;

pub const Part = struct {
    document: []const u8,
    from: usize,
    /// Pretokens that start here or later belong to the next part.
    limit: usize,
    /// Where the last pretoken ends.
    end: usize = 0,
    /// How much of the document was looked at.
    text_len: usize = 0,
    /// It met a byte that no token covers. That may be so only because it starts inside of a
    /// pretoken, so it has no ids, and who joins it finds out.
    has_failed: bool = false,

    /// Encodes the part; `sink` is a `List` or a `Count` and empty.
    pub fn encode(self: *Part, encoder: *ids.Encoder, sink: anytype) ids.Error!void {
        // Not all of the text behind the limit: a run without an end would be scanned by every
        // part before it.
        const is_program = encoder.tokenizer.scheme == .program;
        const far = if (is_program) self.document.len else self.limit + margin;
        for ([_]usize{ @min(far, self.document.len), self.document.len }) |text_len| {
            self.text_len = text_len;
            const is_whole = text_len == self.document.len;
            const done = self.encodeIn(encoder, sink) catch |failure| blk: {
                if (failure != error.MissingByte) return failure;
                if (is_whole and self.from == 0) return failure;
                self.has_failed = is_whole;
                self.end = self.limit;
                break :blk is_whole;
            };
            if (self.has_failed or !done) sink.reset();
            if (done) return;
        }
    }

    /// The same with as much of the document as `text_len` says; false when what lies behind that
    /// would make a difference.
    fn encodeIn(self: *Part, encoder: *ids.Encoder, sink: anytype) ids.Error!bool {
        const text = self.document[0..self.text_len];
        self.end = self.from;
        if (self.from > 0 and try self.isInsideRun(encoder)) return true;
        self.end = try encodeFrom(encoder, text, self.from, self.limit, sink);
        if (text.len == self.document.len or self.end == self.limit) return true;
        return pretokens.reachOf(&encoder.tokenizer.scheme, text, self.end, null) <= text.len;
    }

    /// Whether it is in a run that it neither begins nor ends, and that cannot be left at its
    /// limit: that belongs to the part that begins it.
    fn isInsideRun(self: *const Part, encoder: *ids.Encoder) ids.Error!bool {
        const text = self.document[0..self.text_len];
        var pieces: pretokens.Pretokens = .init(encoder.gpa, &encoder.tokenizer.scheme, text);
        defer pieces.deinit();
        pieces.index = self.from;
        const span = try pieces.next() orelse return false;
        return span.end > self.limit and !try canLeaveAt(encoder, text, span, self.limit);
    }
};

/// The first starts of a part, and how many ids come before each.
const Trace = struct {
    starts: [trace_len]usize,
    before: [trace_len]usize,
    len: usize,

    /// Found once more, as few parts need it.
    fn init(self: *Trace, encoder: *ids.Encoder, part: *const Part) ids.Error!void {
        self.len = 0;
        if (part.has_failed) return;
        const text = part.document[0..part.text_len];
        var pieces: pretokens.Pretokens = .init(encoder.gpa, &encoder.tokenizer.scheme, text);
        defer pieces.deinit();
        pieces.index = part.from;
        var counted: ids.Count = .{};
        while (self.len < trace_len and pieces.index < part.end) {
            const span = try pieces.next() orelse break;
            if (span.start >= part.end) break;
            self.starts[self.len] = span.start;
            self.before[self.len] = counted.count;
            self.len += 1;
            if (span.end >= part.end) break;
            try encoder.encodePretoken(text[span.start..span.end], &counted);
        }
    }

    /// How many ids come before a start, if it is one of them.
    fn idsBefore(self: *const Trace, start: usize) ?usize {
        const index = std.mem.indexOfScalar(usize, self.starts[0..self.len], start);
        return if (index) |found| self.before[found] else null;
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
            const taken = if (end > limit) before(batch, limit) else batch;
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
    if (tokenizer.scheme == .program) return false;
    // Neither of the two may be a token, which it would only be as a whole.
    const vocabulary = &tokenizer.vocabulary;
    const len_min = if (vocabulary.is_closed) 0 else vocabulary.token_len_max;
    if (@min(limit - span.start, span.end - limit) <= len_min) return false;
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
/// `bridge`, a sink like that of the part, which has `total` ids. Null when that takes long, and it
/// may not.
pub fn join(
    encoder: *ids.Encoder,
    part: *const Part,
    end: usize,
    total: usize,
    bridge: anytype,
    may_take_long: bool,
) ids.Error!?Joint {
    var joint = try meet(encoder, part, end, total, bridge, may_take_long) orelse return null;
    // Found once more they are as many, unless a vocabulary lies about what merging gives.
    joint.skipped = @min(joint.skipped, total);
    const document = part.document;
    // The last part may have left a run to the one that begins it.
    if (part.limit == document.len and joint.end < document.len) {
        if (!may_take_long) return null;
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
    may_take_long: bool,
) ids.Error!?Joint {
    if (end == part.from and !part.has_failed) return .{ .end = part.end, .skipped = 0 };
    if (end >= part.end) return .{ .end = end, .skipped = total };
    var trace: Trace = undefined;
    try trace.init(encoder, part);
    var pieces: pretokens.Pretokens =
        .init(encoder.gpa, &encoder.tokenizer.scheme, part.document);
    defer pieces.deinit();
    pieces.index = end;
    // At most once for each start that is compared, or twice where scans differ.
    if (!part.has_failed) for (0..2 * trace_len) |_| {
        const at = pieces.index;
        if (trace.idsBefore(at)) |skipped| return .{ .end = part.end, .skipped = skipped };
        if (at >= part.end) return .{ .end = at, .skipped = total };
        const span = try pieces.next() orelse
            return .{ .end = part.document.len, .skipped = total };
        const start = span.start;
        if (trace.idsBefore(start)) |skipped| return .{ .end = part.end, .skipped = skipped };
        try encoder.encodePretoken(part.document[span.start..span.end], bridge);
    };
    // They do not meet: the part is encoded again, from where it really starts.
    if (!may_take_long) return null;
    const again = try encodeFrom(encoder, part.document, pieces.index, part.end, bridge);
    return .{ .end = again, .skipped = total };
}

//! A long document → chunks for several threads, whose ids are joined to those of the whole
//! document.
//!
//! It is for text without proven cuts (pretokens/cuts.zig). A chunk starts at an offset that is
//! probably the start of a pretoken. It is encoded from there to the end of the last pretoken that
//! begins before its limit. If that end is the start of the next chunk, the chunks fit together,
//! since pretokens after a start depend only on the text after it. Otherwise the gap is encoded
//! until both scans have a start in common.
//!
//! A very long run is split at the limit itself if no token can cover the boundary there.

const std = @import("std");
const cuts = @import("../pretokens/cuts.zig");
const encoder_ = @import("encoder.zig");
const pretokens = @import("../pretokens.zig");
const List = encoder_.List;
const Encoder = encoder_.Encoder;
const Error = encoder_.Error;

/// Number of starts that are compared. Two scans of the same text agree after a few.
const trace_len = 64;

pub const Part = struct {
    document: []const u8,
    from: usize,
    /// Pretokens that start here or later belong to the next chunk.
    limit: usize,
    /// End offset of the last pretoken.
    end: usize = 0,
    /// Length of the document prefix that was visible to the scan.
    text_len: usize = 0,
    /// The chunk contains a byte that no token covers. The cause may be that it starts inside a
    /// pretoken, so it has no ids, and `join` encodes it again.
    has_failed: bool = false,

    /// Encodes the chunk. `list` is empty.
    pub fn encode(self: *Part, encoder: *Encoder, list: *List) Error!void {
        // Limits the text after the chunk's end. Otherwise every chunk before a very long run would
        // scan the whole run.
        const is_program = encoder.tokenizer.scheme == .program;
        const far = if (is_program) self.document.len else self.limit + margin;
        for ([_]usize{ @min(far, self.document.len), self.document.len }) |text_len| {
            self.text_len = text_len;
            const is_whole = text_len == self.document.len;
            const done = self.encodeIn(encoder, list) catch |failure| blk: {
                if (failure != error.MissingByte) return failure;
                if (is_whole and self.from == 0) return failure;
                self.has_failed = is_whole;
                self.end = self.limit;
                break :blk is_whole;
            };
            if (self.has_failed or !done) list.reset();
            if (done) return;
        }
    }

    /// The same with the first `text_len` bytes of the document. Returns false if the text after
    /// them would make a difference.
    fn encodeIn(self: *Part, encoder: *Encoder, list: *List) Error!bool {
        const text = self.document[0..self.text_len];
        self.end = self.from;
        if (self.from > 0 and try self.isInsideRun(encoder)) return true;
        self.end = try encodeFrom(encoder, text, self.from, self.limit, list);
        if (text.len == self.document.len or self.end == self.limit) return true;
        return pretokens.reachOf(&encoder.tokenizer.scheme, text, self.end, null) <= text.len;
    }

    /// Whether the chunk is inside a run that starts before it, ends after it, and cannot be split
    /// at its limit. Such a run belongs to the chunk in which it starts.
    fn isInsideRun(self: *const Part, encoder: *Encoder) Error!bool {
        const text = self.document[0..self.text_len];
        var pieces: pretokens.Pretokens = .init(encoder.gpa, &encoder.tokenizer.scheme, text);
        defer pieces.deinit();
        pieces.index = self.from;
        const span = try pieces.next() orelse return false;
        return span.end > self.limit and !try isSeamCut(encoder, text, span, self.limit);
    }
};

/// The first pretoken starts of a chunk, and the number of ids before each.
const Trace = struct {
    starts: [trace_len]usize,
    before: [trace_len]usize,
    len: usize,

    /// Computed again on demand, since few chunks need it.
    fn init(self: *Trace, encoder: *Encoder, part: *const Part) Error!void {
        self.len = 0;
        if (part.has_failed) return;
        const text = part.document[0..part.text_len];
        var pieces: pretokens.Pretokens = .init(encoder.gpa, &encoder.tokenizer.scheme, text);
        defer pieces.deinit();
        pieces.index = part.from;
        var count: usize = 0;
        while (self.len < trace_len and pieces.index < part.end) {
            const span = try pieces.next() orelse break;
            if (span.start >= part.end) break;
            self.starts[self.len] = span.start;
            self.before[self.len] = count;
            self.len += 1;
            if (span.end >= part.end) break;
            count += try encoder.countPretoken(text[span.start..span.end]);
        }
    }

    /// Returns the number of ids before `start`, if it is one of the starts.
    fn idsBefore(self: *const Trace, start: usize) ?usize {
        const index = std.mem.indexOfScalar(usize, self.starts[0..self.len], start);
        return if (index) |found| self.before[found] else null;
    }
};

/// Number of bytes after its limit that a chunk looks at.
const margin = 1 << 16;

/// Encodes one pretoken, or its bytes before `limit` if it can be split there. Returns the end of
/// the encoded text.
fn encodeSpan(
    encoder: *Encoder,
    document: []const u8,
    span: pretokens.Span,
    limit: usize,
    list: *List,
) Error!usize {
    const end = if (try isSeamCut(encoder, document, span, limit)) limit else span.end;
    try encoder.merger.pollAfter(end - span.start);
    try encoder.encodePretoken(document[span.start..end], list);
    return end;
}

/// Encodes the pretokens that start in `from..limit`, and returns the end of the last one.
fn encodeFrom(
    encoder: *Encoder,
    document: []const u8,
    from: usize,
    limit: usize,
    list: *List,
) Error!usize {
    var sweep: pretokens.Sweep = undefined;
    sweep.init(encoder.gpa, &encoder.tokenizer.scheme, document);
    defer sweep.deinit();
    sweep.index = from;
    while (try sweep.next()) |batch| {
        if (batch.start >= limit) return batch.start;
        var end = batch.start + batch.len;
        if (batch.ends.len == 0) {
            const span: pretokens.Span = .{ .start = batch.start, .end = end };
            end = try encodeSpan(encoder, document, span, limit, list);
        } else {
            const taken = if (end > limit) batch.before(limit) else batch;
            end = batch.start + taken.len;
            try encoder.encodeBatch(taken, list);
        }
        if (end >= limit) return end;
    }
    return document.len;
}

/// Whether a long pretoken can be split at `limit`: no token may cover the boundary, and the rest
/// must end where the whole pretoken ends.
fn isSeamCut(
    encoder: *Encoder,
    document: []const u8,
    span: pretokens.Span,
    limit: usize,
) Error!bool {
    if (limit >= span.end or limit - span.start <= pretokens.piece_len_max) return false;
    const tokenizer = encoder.tokenizer;
    if (tokenizer.scheme == .program) return false;
    // Neither half may be a token, because tokens match whole pretokens.
    const vocabulary = &tokenizer.vocabulary;
    const len_min = if (vocabulary.is_closed) 0 else vocabulary.token_len_max;
    if (@min(limit - span.start, span.end - limit) <= len_min) return false;
    return try encoder.isFreeSeam(document, limit) and cuts.isInRun(document, span, limit);
}

/// Returns an offset from `nominal` on where a chunk can start: that of `cuts.probableStart`, but
/// in a run of three-byte characters a safe split point.
pub fn probableStart(encoder: *Encoder, document: []const u8, nominal: usize) Error!usize {
    const start = cuts.probableStart(document, nominal);
    if (start < document.len and document[start] == ' ') return start;
    for (start..@min(nominal + cuts.search_len, document.len)) |index| {
        if (document[index] < 0xE0 or document[index - 1] < 0x80) continue;
        if (try encoder.isFreeSeam(document, index)) return index;
    }
    return start;
}

/// The end of the joined text, and the number of ids of the chunk to skip.
pub const Join = struct { end: usize, skipped: usize };

/// Joins a chunk to the encoding that ends at `end`. Missing ids between them go to `gap_ids`.
/// The list of the chunk has `total` ids. Returns null if that takes long and
/// `may_take_long` is false.
pub fn join(
    encoder: *Encoder,
    part: *const Part,
    end: usize,
    total: usize,
    gap_ids: *List,
    may_take_long: bool,
) Error!?Join {
    var joined = try synchronize(encoder, part, end, total, gap_ids, may_take_long) orelse
        return null;
    // The repeated count is the same, unless a vocabulary violates the merge rules.
    joined.skipped = @min(joined.skipped, total);
    const document = part.document;
    // The last chunk may have left a run to the chunk in which it starts.
    if (part.limit == document.len and joined.end < document.len) {
        if (!may_take_long) return null;
        joined.end = try encodeFrom(encoder, document, joined.end, document.len, gap_ids);
    }
    return joined;
}

fn synchronize(
    encoder: *Encoder,
    part: *const Part,
    end: usize,
    total: usize,
    gap_ids: *List,
    may_take_long: bool,
) Error!?Join {
    if (end == part.from and !part.has_failed) return .{ .end = part.end, .skipped = 0 };
    if (end >= part.end) return .{ .end = end, .skipped = total };
    var trace: Trace = undefined;
    try trace.init(encoder, part);
    var pieces: pretokens.Pretokens =
        .init(encoder.gpa, &encoder.tokenizer.scheme, part.document);
    defer pieces.deinit();
    pieces.index = end;
    // One round per compared start, or two where the scans differ.
    if (!part.has_failed) for (0..2 * trace_len) |_| {
        const at = pieces.index;
        if (trace.idsBefore(at)) |skipped| return .{ .end = part.end, .skipped = skipped };
        if (at >= part.end) return .{ .end = at, .skipped = total };
        const span = try pieces.next() orelse
            return .{ .end = part.document.len, .skipped = total };
        const start = span.start;
        if (trace.idsBefore(start)) |skipped| return .{ .end = part.end, .skipped = skipped };
        try encoder.encodePretoken(part.document[span.start..span.end], gap_ids);
    };
    // The scans have no start in common, so the chunk is encoded again from its true start.
    if (!may_take_long) return null;
    const again = try encodeFrom(encoder, part.document, pieces.index, part.end, gap_ids);
    return .{ .end = again, .skipped = total };
}

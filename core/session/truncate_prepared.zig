//! Text that the tokenizer preprocesses, and a number of tokens → the cut.
//!
//! As in truncate.zig candidates are encoded, here with a session that derives each from the
//! previous one in a few microseconds. The search for a prefix starts at a length from which on
//! every text has too many tokens. A normalization boundary of the session proves that, so the
//! removed text is not encoded. For tokenizers without such boundaries (see prepared.zig), and for
//! suffixes, the search starts slightly beyond the offset where the limit is reached.
//!
//! **Invariant** as in truncate.zig, except for steps that remove text of any length at the end
//! (Strip). With these, a longer part may normalize to one that was tried.

const std = @import("std");
const Allocator = std.mem.Allocator;
const encoder_ = @import("../encode/encoder.zig");
const offsets = @import("../offsets.zig");
const prepared = @import("prepared.zig");
const pretokens = @import("../pretokens.zig");
const unicode = @import("../unicode.zig");
const Encoder = encoder_.Encoder;
const Error = encoder_.Error;
const List = encoder_.List;
const Boundary = @import("direct.zig").Boundary;
const Prepared = prepared.Prepared;
const Spans = offsets.Spans;
const SafePoint = prepared.SafePoint;
const Vocabulary = @import("../vocabulary.zig").Vocabulary;

/// Bytes that candidates may be made from before the search takes larger steps.
const work_max = 32 << 20;

/// The text grows by this many bytes near the limit, so the checkpoints of the session are as
/// dense.
const step_bytes = 64;

/// Without boundaries the search starts this many tokens after the last one that fits, or
/// `tokens_far` if they are long. A suffix search starts `suffix_reach` bytes before the first one.
const tokens_beyond = 64;
const tokens_far = 4;
const bytes_beyond = 512;
const suffix_reach = 256;

/// Returns the length of the longest prefix with at most `tokens_max` tokens.
pub fn prefixEnd(encoder: *Encoder, text: []const u8, tokens_max: usize) Error!usize {
    const tokenizer = encoder.tokenizer;
    const choice = tokenizer.preprocessor.choiceOf(null);
    var session: Prepared = try .init(encoder.gpa, tokenizer, choice);
    defer session.deinit();
    var end = text.len;
    if (session.has_safe_points) end = try provenEnd(encoder, &session, text, tokens_max);
    // A long run has no offset that proves the limit.
    if (session.session.ids.items.len > tokens_max +| tokens_beyond or !session.has_safe_points) {
        end = try likelyEnd(encoder, text[0..end], tokens_max);
    }
    var work: usize = 0;
    var step: usize = 1;
    while (end > 0) {
        while (!unicode.isBoundary(text, end)) end -= 1;
        const before = session.session.bytes_encoded;
        const made = session.bytesAfterCheckpoint(@min(end, session.text.items.len));
        try setLen(encoder, &session, text, end);
        const tokens = session.session.ids.items.len;
        if (tokens <= tokens_max) return end;
        try encoder.merger.pollAfter(made);
        work += @intCast(made + session.session.bytes_encoded - before);
        if (work > work_max) step *= 2;
        end -|= step;
    }
    return 0;
}

fn setLen(encoder: *Encoder, session: *Prepared, text: []const u8, len: usize) !void {
    const known = @min(session.text.items.len, len);
    _ = try session.replace(encoder, known, text[known..len]);
}

/// Returns a length from which on all prefixes have too many tokens, or the length of the text.
fn provenEnd(
    encoder: *Encoder,
    session: *Prepared,
    text: []const u8,
    tokens_max: usize,
) Error!usize {
    // Four bytes per token are usual.
    var len = @min(text.len, tokens_max *| 4 +| 1024);
    while (true) : (len = @min(text.len, len *| 2)) {
        try setLen(encoder, session, text, len);
        if (session.lengthBeyond(tokens_max) != null or len == text.len) break;
    }
    if (session.session.ids.items.len <= tokens_max) return text.len;
    try setLen(encoder, session, text, session.startUpTo(tokens_max));
    var steps: usize = 0;
    while (session.text.items.len < text.len) : (steps += 1) {
        // In a long run small steps would be numerous, and each one scans the whole run.
        const step = @as(usize, step_bytes) << @as(u5, @intCast(@min(steps / 16, 20)));
        try setLen(encoder, session, text, @min(text.len, session.text.items.len + step));
        if (session.lengthBeyond(tokens_max)) |found| return @min(text.len, found);
    }
    return text.len;
}

/// Returns a length at which a prefix has too many tokens, most likely like all longer ones.
/// Returns the length of the text if that fits.
fn likelyEnd(encoder: *Encoder, text: []const u8, tokens_max: usize) Error!usize {
    var spans: Spans = .init(encoder.gpa);
    defer spans.deinit();
    try offsets.encode(encoder, text, null, &spans);
    const all = spans.spans.items;
    if (all.len <= tokens_max) return text.len;
    const vocabulary = &encoder.tokenizer.vocabulary;
    const last = all[tokens_max].end;
    for (all[tokens_max..], 0..) |span, index| {
        const is_far = span.end > last +| reachOf(vocabulary, bytes_beyond) and index >= tokens_far;
        if (is_far or (index == tokens_beyond and vocabulary.is_closed)) return span.end;
    }
    return text.len;
}

/// Returns the distance to search around a likely cut. A pretoken that is a token as a whole is one
/// token, but with one more character it may be hundreds.
fn reachOf(vocabulary: *const Vocabulary, usual: u32) u32 {
    return if (vocabulary.is_closed) usual else @max(usual, vocabulary.token_len_max);
}

/// Returns the start of the longest suffix with at most `tokens_max` tokens.
pub fn suffixStart(encoder: *Encoder, text: []const u8, tokens_max: usize) Error!usize {
    const reach = reachOf(&encoder.tokenizer.vocabulary, suffix_reach);
    var len = tokens_max *| 4 +| @max(1024, 2 * @as(usize, reach));
    var from: usize = undefined;
    var start = while (true) : (len *|= 2) {
        from = text.len -| len;
        while (!unicode.isBoundary(text, from)) from -= 1;
        var spans: Spans = .init(encoder.gpa);
        defer spans.deinit();
        try offsets.encode(encoder, text[from..], null, &spans);
        const all = spans.spans.items;
        if (from == 0 and all.len <= tokens_max) return 0;
        if (from > 0 and all.len <= tokens_max +| tokens_beyond) continue;
        break (from + all[all.len - tokens_max - 1].start) -| reach;
    };
    var tail: Tail = try .init(encoder, text, from);
    defer tail.deinit();
    start = @max(start, from);
    while (!unicode.isBoundary(text, start)) start += 1;
    var step: usize = 1;
    while (start < text.len) {
        const tokens = try tail.tokensFrom(start);
        if (tokens <= tokens_max) return start;
        if (tail.work > work_max) step *= 2;
        for (0..step) |_| {
            if (start < text.len) start += unicode.decode(text, start).len;
        }
    }
    return text.len;
}

/// Bytes of a suffix that are preprocessed separately, plus the added tokens that begin there.
const head_bytes = 256;

/// The end of a text, preprocessed once → the number of tokens of each suffix that begins in it.
///
/// A suffix differs from a longer one only near its start. Only its head is preprocessed
/// separately, up to a normalization boundary that both have (prepared.zig). From there on the
/// documents are those of the tail. Their pretokens are scanned until one ends where a pretoken of
/// the tail ends. After that offset all token counts are known.
const Tail = struct {
    encoder: *Encoder,
    text: []const u8,
    /// The text after `whole.origin`. Empty if there are no normalization boundaries.
    whole: Prepared,
    head: Prepared,
    points: std.ArrayList(Point) = .empty,
    /// The first document that is not completely in the head.
    document: std.ArrayList(u8) = .empty,
    /// Number of bytes encoded so far.
    work: usize = 0,

    /// A pretoken or a boundary of the tail, and the number of tokens from it on.
    const Point = struct { at: usize, tokens: usize };

    /// Prepares the text from `from` on.
    pub fn init(encoder: *Encoder, text: []const u8, from: usize) Error!Tail {
        const tokenizer = encoder.tokenizer;
        const choice = tokenizer.preprocessor.choiceOf(null);
        var whole: Prepared = try .init(encoder.gpa, tokenizer, choice);
        whole.origin = from;
        const head = Prepared.init(encoder.gpa, tokenizer, choice) catch |failure| {
            whole.deinit();
            return failure;
        };
        var self: Tail = .{ .encoder = encoder, .text = text, .whole = whole, .head = head };
        errdefer self.deinit();
        if (tokenizer.scheme.looksBehind()) self.whole.has_safe_points = false;
        if (self.whole.has_safe_points) try self.fill();
        return self;
    }

    pub fn deinit(self: *Tail) void {
        self.whole.deinit();
        self.head.deinit();
        self.points.deinit(self.encoder.gpa);
        self.document.deinit(self.encoder.gpa);
    }

    fn fill(self: *Tail) Error!void {
        const gpa = self.encoder.gpa;
        _ = try self.whole.replace(self.encoder, 0, self.text[self.whole.origin..]);
        const bytes = self.whole.session.text.items;
        var start: usize = 0;
        for (self.whole.session.boundaries.items) |boundary| {
            try self.addDocument(start, boundary.at);
            try self.points.append(gpa, .{ .at = boundary.at, .tokens = tokensOf(boundary) });
            start = boundary.at + 1;
        }
        try self.addDocument(start, bytes.len);
        try self.points.append(gpa, .{ .at = bytes.len, .tokens = 0 });
        const points = self.points.items;
        var index = points.len - 1;
        while (index > 0) : (index -= 1) points[index - 1].tokens += points[index].tokens;
    }

    fn tokensOf(boundary: Boundary) usize {
        return @intFromBool(boundary.id != null);
    }

    fn addDocument(self: *Tail, start: usize, end: usize) Error!void {
        const gpa = self.encoder.gpa;
        const bytes = self.whole.session.text.items[start..end];
        var pieces: pretokens.Pretokens = .init(gpa, &self.encoder.tokenizer.scheme, bytes);
        defer pieces.deinit();
        while (try pieces.next()) |span| {
            const tokens = try self.encoder.countPretoken(bytes[span.start..span.end]);
            try self.points.append(gpa, .{ .at = start + span.start, .tokens = tokens });
        }
    }

    /// Returns the number of tokens of the text from `start`, which must be in the tail.
    pub fn tokensFrom(self: *Tail, start: usize) Error!usize {
        if (self.whole.has_safe_points) {
            const len = @min(self.text.len - start, head_bytes + self.head.slack());
            self.head.origin = start;
            _ = try self.head.replace(self.encoder, 0, self.text[start..][0..len]);
            try self.addWork(len);
            for (self.head.safe_points.items[1..]) |safe_point| {
                if (@max(safe_point.start, safe_point.reach) + self.head.slack() > len) break;
                const other = self.same(safe_point) orelse continue;
                return self.tokensAcross(safe_point.at, other.at);
            }
        }
        const tokens = try self.encoder.count(self.text[start..]);
        try self.addWork(self.text.len - start);
        return tokens;
    }

    fn addWork(self: *Tail, bytes: usize) Error!void {
        self.work += bytes;
        try self.encoder.merger.pollAfter(bytes);
    }

    /// Returns the boundary of the tail that equals a boundary of the head.
    fn same(self: *const Tail, safe_point: SafePoint) ?SafePoint {
        const start = self.head.origin + safe_point.start - self.whole.origin;
        const safe_points = self.whole.safe_points.items;
        const index = std.sort.lowerBound(SafePoint, safe_points, start, compareSafePoints);
        if (index == safe_points.len or safe_points[index].start != start) return null;
        return if (safe_points[index].is_open == safe_point.is_open) safe_points[index] else null;
    }

    fn compareSafePoints(start: usize, safe_point: SafePoint) std.math.Order {
        return std.math.order(start, safe_point.start);
    }

    /// Returns the number of tokens of the head's documents up to `end` and the tail's from
    /// `start`.
    fn tokensAcross(self: *Tail, end: usize, start: usize) Error!usize {
        const gpa = self.encoder.gpa;
        const head = &self.head.session;
        var list: List = .{ .gpa = gpa, .only_counts = true };
        defer list.deinit();
        var tokens: usize = 0;
        var from: usize = 0;
        for (head.boundaries.items) |boundary| {
            if (boundary.at >= end) break;
            const bytes = head.text.items[from..boundary.at];
            try self.encoder.encodeDocument(bytes, &list);
            tokens += tokensOf(boundary);
            from = boundary.at + 1;
        }
        tokens += list.total();
        const whole = &self.whole.session;
        const next = whole.boundariesBefore(start);
        const boundaries = whole.boundaries.items;
        const finish = if (next < boundaries.len) boundaries[next].at else whole.text.items.len;
        self.document.clearRetainingCapacity();
        try self.document.appendSlice(gpa, head.text.items[from..end]);
        try self.document.appendSlice(gpa, whole.text.items[start..finish]);
        const bytes = self.document.items;
        var pieces: pretokens.Pretokens = .init(gpa, &self.encoder.tokenizer.scheme, bytes);
        defer pieces.deinit();
        while (try pieces.next()) |span| {
            tokens += try self.encoder.countPretoken(bytes[span.start..span.end]);
            try self.addWork(span.end - span.start);
            if (span.end < end - from) continue;
            // If the tail has a pretoken here, the remaining count is known.
            const at = start + span.end - (end - from);
            if (self.pointAt(at)) |point| return tokens + point.tokens;
        }
        return tokens + self.pointAt(finish).?.tokens;
    }

    fn pointAt(self: *const Tail, at: usize) ?Point {
        const points = self.points.items;
        const index = std.sort.lowerBound(Point, points, at, comparePoints);
        return if (index < points.len and points[index].at == at) points[index] else null;
    }

    fn comparePoints(at: usize, point: Point) std.math.Order {
        return std.math.order(at, point.at);
    }
};

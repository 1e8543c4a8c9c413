//! Text, a number of tokens → where to cut: the longest prefix or suffix that takes no more.
//!
//! Longer is not always more tokens ("hell" may take two and "hello" one), and a cut changes how
//! the text beside it splits. So candidates are encoded, but only around the place where the
//! tokens run out: the rest of what is kept is counted once, and what is cut off is not encoded.
//!
//! **Invariant** the result is on a character boundary and takes at most `tokens_max` tokens.

const std = @import("std");
const Allocator = std.mem.Allocator;
const ids = @import("../ids.zig");
const pretokens = @import("../pretokens.zig");
const unicode = @import("../unicode.zig");
const edge = @import("truncate_edge.zig");

/// A cut cannot change a hand-written scheme's pretokens this far before it: a run of white space
/// is at most three of them, a run of letters two, and no scheme looks beyond the next run.
const settled_count = 8;

/// A pretoken's start, the tokens before it, and how far any of those before it looked ahead.
const Point = struct { start: usize, tokens: usize, reach: usize = 0 };

/// A pretoken of the tail, and the tokens from it to the end of the text.
const TailPoint = struct { start: usize, end: usize, tokens: usize };

/// The last 2 · `settled_count` pretokens.
const History = struct {
    points: [2 * settled_count]Point = undefined,
    count: usize = 0,

    fn add(self: *History, point: Point) void {
        self.points[self.count % self.points.len] = point;
        self.count += 1;
    }
    /// The point `back` pretokens before the newest, or the start of the text.
    fn before(self: *const History, back: usize) Point {
        if (back >= self.count) return .{ .start = 0, .tokens = 0 };
        return self.points[(self.count - 1 - back) % self.points.len];
    }
};

/// Length of the longest prefix that takes at most `tokens_max` tokens.
pub fn prefixEnd(encoder: *ids.Encoder, text: []const u8, tokens_max: usize) ids.Error!usize {
    if (text.len <= tokens_max) return text.len;
    var pieces: pretokens.Pretokens = .init(encoder.gpa, &encoder.tokenizer.scheme, text);
    defer pieces.deinit();
    var history: History = .{};
    var tokens: usize = 0;
    var reach: usize = 0;
    while (try pieces.next()) |span| {
        history.add(.{ .start = span.start, .tokens = tokens, .reach = reach });
        if (pieces.matcher) |*matcher| reach = @max(reach, matcher.reach);
        const piece = text[span.start..span.end];
        if (piece.len > edge.len_min) {
            const found = try edge.prefixEnd(encoder, piece, tokens_max - tokens);
            if (found.cut) |cut| {
                const whole: Candidates = .init(encoder, text, tokens_max);
                return (try whole.last(span.start + cut, 0)).?;
            }
            tokens += found.tokens;
            continue;
        }
        var sink: ids.Count = .{};
        try encoder.encodePretoken(piece, &sink);
        tokens += sink.count;
        if (tokens > tokens_max) return cutNear(encoder, &pieces, &history, reach, tokens_max);
    }
    // Text that the pattern leaves out takes no tokens, so the whole fits.
    return text.len;
}

/// Tokens ran out at the newest pretoken of `history`: tries all cuts that could change that.
fn cutNear(
    encoder: *ids.Encoder,
    pieces: *pretokens.Pretokens,
    history: *const History,
    reach: usize,
    tokens_max: usize,
) ids.Error!usize {
    const text = pieces.text;
    const restart = history.before(2 * settled_count - 1);
    var low = @max(restart.reach, history.before(settled_count).start);
    var high = @min(reach, text.len);
    if (pieces.matcher == null) {
        high = text.len;
        for (0..settled_count) |_| {
            const span = try pieces.next() orelse break;
            // Far into a long pretoken no cut can help, and each try would be dear.
            high = @min(text.len, span.start + edge.len_min);
            if (span.end > high) break;
        } else high = pieces.index;
    }
    const whole: Candidates = .init(encoder, text, tokens_max);
    const scheme = &encoder.tokenizer.scheme;
    if (scheme.* == .program and scheme.program.looks_behind) return (try whole.last(high, 0)).?;
    var near = whole;
    near.start = restart.start;
    near.tokens = restart.tokens;
    low = @min(low, high);
    return try near.last(high, low) orelse (try whole.last(low, 0)).?;
}

/// Cuts of a text, counted from `start`, before which there are `tokens`.
const Candidates = struct {
    encoder: *ids.Encoder,
    text: []const u8,
    tokens_max: usize,
    start: usize = 0,
    tokens: usize = 0,

    fn init(encoder: *ids.Encoder, text: []const u8, tokens_max: usize) Candidates {
        return .{ .encoder = encoder, .text = text, .tokens_max = tokens_max };
    }

    /// The last cut from `high` down to `low` that fits.
    fn last(self: Candidates, high: usize, low: usize) ids.Error!?usize {
        var end = high;
        while (!isBoundary(self.text, end)) end -= 1;
        while (end >= @max(low, self.start)) {
            var sink: ids.Count = .{ .count = self.tokens };
            try self.encoder.encode(self.text[self.start..end], null, &sink);
            if (sink.count <= self.tokens_max) return end;
            if (end == 0) break;
            end -= unicode.decodeBefore(self.text, end).len;
        }
        return null;
    }
};

/// Start of the longest suffix that takes at most `tokens_max` tokens.
pub fn suffixStart(encoder: *ids.Encoder, text: []const u8, tokens_max: usize) ids.Error!usize {
    if (text.len <= tokens_max) return 0;
    var tail: Tail = .{ .encoder = encoder, .text = text, .tokens_max = tokens_max };
    defer tail.deinit();
    // Four bytes a token is usual; where tokens are longer the tail doubles until it is enough.
    var len = tokens_max *| 4 +| 64;
    while (true) : (len *|= 2) {
        var start = text.len -| len;
        while (!isBoundary(text, start)) start -= 1;
        try tail.fill(start);
        const total = tail.points.items[0].tokens;
        if (start == 0 and total <= tokens_max) return 0;
        if (total > tokens_max) return tail.firstFit();
    }
}

/// The pretokens of a tail of the text, each with the tokens from it to the end.
const Tail = struct {
    encoder: *ids.Encoder,
    text: []const u8,
    tokens_max: usize,
    points: std.ArrayList(TailPoint) = .empty,

    fn deinit(self: *Tail) void {
        self.points.deinit(self.encoder.gpa);
    }

    fn fill(self: *Tail, start: usize) ids.Error!void {
        const gpa = self.encoder.gpa;
        self.points.clearRetainingCapacity();
        const text = self.text[start..];
        var pieces: pretokens.Pretokens = .init(gpa, &self.encoder.tokenizer.scheme, text);
        defer pieces.deinit();
        while (try pieces.next()) |span| {
            var sink: ids.Count = .{};
            try self.encoder.encodePretoken(text[span.start..span.end], &sink);
            try self.points.append(gpa, .{
                .start = start + span.start,
                .end = start + span.end,
                .tokens = sink.count,
            });
        }
        const end = self.text.len;
        try self.points.append(gpa, .{ .start = end, .end = end, .tokens = 0 });
        var index = self.points.items.len - 1;
        while (index > 0) : (index -= 1) {
            self.points.items[index - 1].tokens += self.points.items[index].tokens;
        }
    }

    /// The first start around the point where the tokens run out that fits.
    fn firstFit(self: *Tail) ids.Error!usize {
        const points = self.points.items;
        var index: usize = 0;
        while (points[index].tokens > self.tokens_max) index += 1;
        const over = points[index - 1];
        const piece = self.text[over.start..over.end];
        const vocabulary = &self.encoder.tokenizer.vocabulary;
        var start = over.start -| @max(256, 2 * vocabulary.token_len_max);
        if (piece.len > edge.len_min) {
            const budget = self.tokens_max - points[index].tokens;
            start = over.start + try edge.suffixStart(self.encoder, piece, budget);
        }
        while (!isBoundary(self.text, start)) start += 1;
        while (!try self.fits(start)) start += unicode.decode(self.text, start).len;
        return start;
    }

    fn fits(self: *Tail, start: usize) ids.Error!bool {
        if (start == self.text.len) return true;
        const scheme = &self.encoder.tokenizer.scheme;
        const looks_behind = scheme.* == .program and scheme.program.looks_behind;
        const text = self.text[start..];
        var pieces: pretokens.Pretokens = .init(self.encoder.gpa, scheme, text);
        defer pieces.deinit();
        var sink: ids.Count = .{};
        while (try pieces.next()) |span| {
            try self.encoder.encodePretoken(text[span.start..span.end], &sink);
            if (sink.count > self.tokens_max) return false;
            // From a place where the tail's pretokens start, the rest is known.
            if (looks_behind) continue;
            const rest = self.tokensFrom(start + span.end) orelse continue;
            return sink.count + rest <= self.tokens_max;
        }
        return true;
    }

    fn tokensFrom(self: *const Tail, start: usize) ?usize {
        const points = self.points.items;
        var low: usize = 0;
        var high = points.len;
        while (low < high) {
            const middle = low + (high - low) / 2;
            if (points[middle].start < start) low = middle + 1 else high = middle;
        }
        return if (low < points.len and points[low].start == start) points[low].tokens else null;
    }
};

/// Whether a character starts (or the text ends) at `index`, as forward decoding sees it.
fn isBoundary(text: []const u8, index: usize) bool {
    if (index == 0 or index >= text.len or text[index] & 0xC0 != 0x80) return true;
    // At most three bytes back a character must start that covers this byte, if any does.
    var start = index;
    while (start > 0 and index - start < 3) {
        start -= 1;
        if (text[start] & 0xC0 != 0x80) return start + unicode.decode(text, start).len <= index;
    }
    return true;
}

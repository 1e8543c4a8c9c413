//! Text and a number of tokens → the longest prefix or suffix with at most that many tokens.
//!
//! A longer text does not always have more tokens ("hell" may have two and "hello" one), and a cut
//! changes how the text next to it splits. Candidates are therefore encoded, but only near the
//! offset where the limit is reached. The rest of the kept text is counted once, and the removed
//! text is not encoded.
//!
//! **Invariant** the result is on a character boundary and has at most `tokens_max` tokens. It is
//! the longest such text unless the search would take too long (`work_max`): for a pattern with
//! unbounded look-ahead, or a run of tens of kilobytes whose tokens all shift.

const std = @import("std");
const Allocator = std.mem.Allocator;
const Effort = @import("../added.zig").Effort;
const ids = @import("../ids.zig");
const pretokens = @import("../pretokens.zig");
const unicode = @import("../unicode.zig");
const edge = @import("truncate_edge.zig");
const prepared = @import("truncate_prepared.zig");

/// Number of recorded pretokens. A run of whitespace has at most three and a word in mixed case a
/// few, so with a hand-written scanner the effect of a cut never reaches farther back.
const history_len = 16;

/// Bytes that candidates may be encoded from before the search takes larger steps.
const work_max = 16 << 20;

/// The search for a suffix starts this many bytes before the pretoken in which the limit is
/// reached.
const suffix_reach = 256;

/// A pretoken, the tokens before it, and how far any pretoken before it has looked ahead.
const Point = struct {
    start: usize,
    tokens: usize,
    reach: usize,

    const start_of_text: Point = .{ .start = 0, .tokens = 0, .reach = 0 };
};

const History = struct {
    points: [history_len]Point = undefined,
    count: usize = 0,

    fn add(self: *History, point: Point) void {
        self.points[self.count % history_len] = point;
        self.count += 1;
    }

    /// Returns the last pretoken before which a cut at `cut` has no effect.
    fn settled(self: *const History, cut: usize) Point {
        for (0..@min(self.count, history_len)) |back| {
            const point = self.points[(self.count - 1 - back) % history_len];
            if (point.start <= cut and point.reach <= cut) return point;
        }
        return .start_of_text;
    }
};

/// Returns the offset up to which a pretoken depends on the text. A cut at or after it does not
/// change the pretoken.
fn reachOf(pieces: *const pretokens.Pretokens, span: pretokens.Span) usize {
    if (pieces.matcher) |*matcher| return matcher.reach;
    if (pieces.cutter) |*cutter| return cutter.reach();
    return pretokens.reachOf(pieces.scheme, pieces.text, span.end, null);
}

/// Whether a text is a single unmodified document without added tokens.
fn isDocument(encoder: *const ids.Encoder, text: []const u8) bool {
    const front = &encoder.tokenizer.front;
    const choice = front.choiceOf(null) orelse return front.isDirect(null);
    if (!front.isDirect(choice)) return false;
    var effort: Effort = .{ .gpa = encoder.gpa };
    defer effort.deinit();
    var search = front.raw.names.search(text, 0, choice, &effort);
    return search.next() == null;
}

/// Returns the length of the longest prefix with at most `tokens_max` tokens.
pub fn prefixEnd(encoder: *ids.Encoder, text: []const u8, tokens_max: usize) ids.Error!usize {
    if (!isDocument(encoder, text)) return prepared.prefixEnd(encoder, text, tokens_max);
    if (text.len <= tokens_max) return text.len;
    var pieces: pretokens.Pretokens = .init(encoder.gpa, &encoder.tokenizer.scheme, text);
    defer pieces.deinit();
    var cuts: Cuts = .{ .encoder = encoder, .text = text, .tokens_max = tokens_max };
    var tokens: usize = 0;
    var reach: usize = 0;
    while (true) {
        // A point starts where the search started. Text that is dropped before a pretoken depends
        // on the text after it.
        const from = pieces.index;
        const span = try pieces.next() orelse break;
        cuts.history.add(.{ .start = from, .tokens = tokens, .reach = reach });
        reach = @max(reach, reachOf(&pieces, span));
        const high = @min(reach, text.len);
        const pretoken = text[span.start..span.end];
        const extended = text[span.start..@min(high, span.end + 16)];
        if (edge.fits(encoder, extended, pretoken.len)) {
            const rest = tokens_max - tokens;
            const found = try edge.prefixEnd(encoder, pretoken, extended, rest);
            if (found.cut) |cut| return cuts.last(span.start + cut);
            tokens += found.tokens;
            continue;
        }
        var sink: ids.Count = .{};
        try encoder.encodePretoken(pretoken, &sink);
        tokens += sink.count;
        if (tokens > tokens_max) return cuts.last(high);
    }
    // Text that the pattern drops has no tokens, so the whole text fits.
    return text.len;
}

/// The candidates for a cut.
const Cuts = struct {
    encoder: *ids.Encoder,
    text: []const u8,
    tokens_max: usize,
    history: History = .{},

    /// Returns the last cut at or before `high` that fits.
    fn last(self: *const Cuts, high: usize) ids.Error!usize {
        const scheme = &self.encoder.tokenizer.scheme;
        const looks_behind = scheme.looksBehind();
        var end = high;
        var work: usize = 0;
        var step: usize = 1;
        while (end > 0) : (end -|= step) {
            while (!isBoundary(self.text, end)) end -= 1;
            const from: Point = if (looks_behind) .start_of_text else self.history.settled(end);
            var sink: ids.Count = .{ .count = from.tokens };
            try self.encoder.encode(self.text[from.start..end], null, &sink);
            if (sink.count <= self.tokens_max) return end;
            work += end - from.start;
            if (work > work_max) step *= 2;
        }
        return 0;
    }
};

/// Returns the start of the longest suffix with at most `tokens_max` tokens.
pub fn suffixStart(encoder: *ids.Encoder, text: []const u8, tokens_max: usize) ids.Error!usize {
    if (!isDocument(encoder, text)) return prepared.suffixStart(encoder, text, tokens_max);
    if (text.len <= tokens_max) return 0;
    var tail: Tail = .{ .encoder = encoder, .text = text, .tokens_max = tokens_max };
    defer tail.deinit();
    // Four bytes per token are usual. For longer tokens the tail doubles until it is long enough.
    var len = tokens_max *| 4 +| 64;
    var margin: usize = 8 * @as(usize, encoder.tokenizer.vocabulary.token_len_max);
    while (true) {
        var start = text.len -| len;
        while (!isBoundary(text, start)) start -= 1;
        const total = try tail.walk(start);
        if (start == 0 and total <= tokens_max) return 0;
        if (total <= tokens_max) {
            len *|= 2;
        } else if (start > 0 and margin > 0 and tail.newest().items[1].tokens <= tokens_max) {
            // The limit is reached inside the first pretoken of the tail, which may start farther
            // left.
            len += margin;
            margin = 0;
        } else return tail.firstFit();
    }
}

/// A pretoken of the tail, and the number of tokens from it to the end of the text.
const TailPoint = struct { start: usize, end: usize, tokens: usize };

/// Scans of the pretokens at the end of the text. Scans from different offsets soon agree. If they
/// do not (digits in groups of three), each scan is recorded.
const Tail = struct {
    encoder: *ids.Encoder,
    text: []const u8,
    tokens_max: usize,
    walks: [walks_max]std.ArrayList(TailPoint) = @splat(.empty),
    walk_count: usize = 0,

    const walks_max = 4;
    /// After this many pretokens without agreement, a scan continues to the end.
    const patience = 64;

    fn deinit(self: *Tail) void {
        for (&self.walks) |*points| points.deinit(self.encoder.gpa);
    }

    fn newest(self: *Tail) *std.ArrayList(TailPoint) {
        return &self.walks[(self.walk_count - 1) % walks_max];
    }

    /// Scans from `start` to the end of the text and returns the number of tokens.
    fn walk(self: *Tail, start: usize) ids.Error!usize {
        const gpa = self.encoder.gpa;
        self.walk_count += 1;
        const points = self.newest();
        points.clearRetainingCapacity();
        const text = self.text[start..];
        var pieces: pretokens.Pretokens = .init(gpa, &self.encoder.tokenizer.scheme, text);
        defer pieces.deinit();
        while (try pieces.next()) |span| {
            var sink: ids.Count = .{};
            try self.encoder.encodePretoken(text[span.start..span.end], &sink);
            try points.append(gpa, .{
                .start = start + span.start,
                .end = start + span.end,
                .tokens = sink.count,
            });
        }
        const end = self.text.len;
        try points.append(gpa, .{ .start = end, .end = end, .tokens = 0 });
        var index = points.items.len - 1;
        while (index > 0) : (index -= 1) {
            points.items[index - 1].tokens += points.items[index].tokens;
        }
        return points.items[0].tokens;
    }

    /// Returns the first start that fits, near the pretoken where the limit is reached.
    fn firstFit(self: *Tail) ids.Error!usize {
        const points = self.newest().items;
        var index: usize = 0;
        while (points[index].tokens > self.tokens_max) index += 1;
        const over = points[index - 1];
        var start = over.start -| suffix_reach;
        const pretoken = self.text[over.start..over.end];
        if (edge.fits(self.encoder, pretoken, pretoken.len)) {
            const rest = self.tokens_max - points[index].tokens;
            start = over.start + try edge.suffixStart(self.encoder, pretoken, rest);
        }
        while (!isBoundary(self.text, start)) start += 1;
        var work: usize = 0;
        var step: usize = 1;
        while (!try self.fits(start)) {
            work += @min(over.end -| start, self.text.len - start);
            if (work > work_max) step *= 2;
            for (0..step) |_| {
                if (start < self.text.len) start += unicode.decode(self.text, start).len;
            }
        }
        return start;
    }

    fn fits(self: *Tail, start: usize) ids.Error!bool {
        if (start == self.text.len) return true;
        const scheme = &self.encoder.tokenizer.scheme;
        const looks_behind = scheme.looksBehind();
        const text = self.text[start..];
        var pieces: pretokens.Pretokens = .init(self.encoder.gpa, scheme, text);
        defer pieces.deinit();
        var sink: ids.Count = .{};
        var walked: usize = 0;
        while (try pieces.next()) |span| : (walked += 1) {
            try self.encoder.encodePretoken(text[span.start..span.end], &sink);
            if (sink.count > self.tokens_max) return false;
            // If another scan has a pretoken here, the remaining count is known.
            if (looks_behind) continue;
            const known = self.tokensFrom(start + span.end);
            if (known) |rest| return sink.count + rest <= self.tokens_max;
            if (walked == patience) return try self.walk(start) <= self.tokens_max;
        }
        return true;
    }

    fn tokensFrom(self: *const Tail, start: usize) ?usize {
        for (self.walks) |points| {
            const index = std.sort.lowerBound(TailPoint, points.items, start, compare);
            if (index == points.items.len) continue;
            if (points.items[index].start == start) return points.items[index].tokens;
        }
        return null;
    }

    fn compare(start: usize, point: TailPoint) std.math.Order {
        return std.math.order(start, point.start);
    }
};

/// Whether a character starts, or the text ends, at `index` when decoded forwards.
pub fn isBoundary(text: []const u8, index: usize) bool {
    if (index == 0 or index >= text.len or text[index] & 0xC0 != 0x80) return true;
    // A character that covers this byte starts at most three bytes before it.
    var start = index;
    while (start > 0 and index - start < 3) {
        start -= 1;
        if (text[start] & 0xC0 != 0x80) return start + unicode.decode(text, start).len <= index;
    }
    return true;
}

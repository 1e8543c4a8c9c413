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
const encoder_ = @import("../encode/encoder.zig");
const expand = @import("../merge/byte_fallback.zig");
const merge_long = @import("../merge/long.zig");
const pretokens = @import("../pretokens.zig");
const unicode = @import("../unicode.zig");
const prepared = @import("truncate_prepared.zig");
const Encoder = encoder_.Encoder;
const Error = encoder_.Error;
const Vocabulary = @import("../vocabulary.zig").Vocabulary;
const Window = @import("../merge/window.zig").Window;

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
    fn lastValid(self: *const History, cut: usize) Point {
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
fn isDocument(encoder: *const Encoder, text: []const u8) bool {
    const preprocessor = &encoder.tokenizer.preprocessor;
    const choice = preprocessor.choiceOf(null) orelse return preprocessor.isDirect(null);
    if (!preprocessor.isDirect(choice)) return false;
    var effort: Effort = .{ .gpa = encoder.gpa };
    defer effort.deinit();
    var search = preprocessor.raw.names.search(text, 0, choice, &effort);
    return search.next() == null;
}

/// Returns the length of the longest prefix with at most `tokens_max` tokens.
pub fn prefixEnd(encoder: *Encoder, text: []const u8, tokens_max: usize) Error!usize {
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
        if (canCutInside(encoder, extended, pretoken.len)) {
            const rest = tokens_max - tokens;
            const found = try prefixEndInside(encoder, pretoken, extended, rest);
            if (found.cut) |cut| return cuts.last(span.start + cut);
            tokens += found.tokens;
            continue;
        }
        tokens += try encoder.countPretoken(pretoken);
        if (tokens > tokens_max) return cuts.last(high);
    }
    // Text that the pattern drops has no tokens, so the whole text fits.
    return text.len;
}

/// The candidates for a cut.
const Cuts = struct {
    encoder: *Encoder,
    text: []const u8,
    tokens_max: usize,
    history: History = .{},

    /// Returns the last cut at or before `high` that fits.
    fn last(self: *const Cuts, high: usize) Error!usize {
        const scheme = &self.encoder.tokenizer.scheme;
        const looks_behind = scheme.looksBehind();
        var end = high;
        var work: usize = 0;
        var step: usize = 1;
        while (end > 0) : (end -|= step) {
            while (!unicode.isBoundary(self.text, end)) end -= 1;
            const from: Point =
                if (looks_behind) .start_of_text else self.history.lastValid(end);
            const tokens = try self.encoder.count(self.text[from.start..end]);
            if (from.tokens + tokens <= self.tokens_max) return end;
            work += end - from.start;
            if (work > work_max) step *= 2;
        }
        return 0;
    }
};

/// Returns the start of the longest suffix with at most `tokens_max` tokens.
pub fn suffixStart(encoder: *Encoder, text: []const u8, tokens_max: usize) Error!usize {
    if (!isDocument(encoder, text)) return prepared.suffixStart(encoder, text, tokens_max);
    if (text.len <= tokens_max) return 0;
    var tail: Tail = .{ .encoder = encoder, .text = text, .tokens_max = tokens_max };
    defer tail.deinit();
    // Four bytes per token are usual. For longer tokens the tail doubles until it is long enough.
    var len = tokens_max *| 4 +| 64;
    var margin: usize = 8 * @as(usize, encoder.tokenizer.vocabulary.token_len_max);
    while (true) {
        var start = text.len -| len;
        while (!unicode.isBoundary(text, start)) start -= 1;
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
    encoder: *Encoder,
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
    fn walk(self: *Tail, start: usize) Error!usize {
        const gpa = self.encoder.gpa;
        self.walk_count += 1;
        const points = self.newest();
        points.clearRetainingCapacity();
        const text = self.text[start..];
        var pieces: pretokens.Pretokens = .init(gpa, &self.encoder.tokenizer.scheme, text);
        defer pieces.deinit();
        while (try pieces.next()) |span| {
            try points.append(gpa, .{
                .start = start + span.start,
                .end = start + span.end,
                .tokens = try self.encoder.countPretoken(text[span.start..span.end]),
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
    fn firstFit(self: *Tail) Error!usize {
        const points = self.newest().items;
        var index: usize = 0;
        while (points[index].tokens > self.tokens_max) index += 1;
        const over = points[index - 1];
        var start = over.start -| suffix_reach;
        const pretoken = self.text[over.start..over.end];
        if (canCutInside(self.encoder, pretoken, pretoken.len)) {
            const rest = self.tokens_max - points[index].tokens;
            start = over.start + try suffixStartInside(self.encoder, pretoken, rest);
        }
        while (!unicode.isBoundary(self.text, start)) start += 1;
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

    fn fits(self: *Tail, start: usize) Error!bool {
        if (start == self.text.len) return true;
        const scheme = &self.encoder.tokenizer.scheme;
        const looks_behind = scheme.looksBehind();
        const text = self.text[start..];
        var pieces: pretokens.Pretokens = .init(self.encoder.gpa, scheme, text);
        defer pieces.deinit();
        var tokens: usize = 0;
        var walked: usize = 0;
        while (try pieces.next()) |span| : (walked += 1) {
            tokens += try self.encoder.countPretoken(text[span.start..span.end]);
            if (tokens > self.tokens_max) return false;
            // If another scan has a pretoken here, the remaining count is known.
            if (looks_behind) continue;
            const known = self.tokensFrom(start + span.end);
            if (known) |rest| return tokens + rest <= self.tokens_max;
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

/// Pretokens of at least this length are cut here.
const cut_len_min = 1024;

/// A candidate is joined to the known tokens this many tokens away from the cut, or a few more.
const tokens_away = 48;
const seams_max = 16;

/// Candidates that match at no boundary (a run of one letter whose tokens all shift) are encoded
/// completely, up to this total: about a third of a second.
const whole_bytes_max = 8 << 20;

/// Whether a pretoken of `len` bytes, continued as `extended`, is cut here: it must be long, and
/// its parts must be encoded like the whole.
fn canCutInside(encoder: *const Encoder, extended: []const u8, len: usize) bool {
    const vocabulary = &encoder.tokenizer.vocabulary;
    return len > cut_len_min and vocabulary.leftover != .settle and !vocabulary.isTied(extended);
}

const Prefix = struct {
    /// Number of tokens of the whole pretoken, if it does not exceed the limit.
    tokens: usize,
    /// Otherwise the length of the longest prefix within the limit.
    cut: ?usize,
};

/// Finds the longest prefix of `pretoken` with at most `tokens_max` tokens. `extended` is as long
/// as the pretoken could become if the text were cut after it; a run of whitespace can grow that
/// way.
fn prefixEndInside(
    encoder: *Encoder,
    pretoken: []const u8,
    extended: []const u8,
    tokens_max: usize,
) Error!Prefix {
    var search: Search = .init(encoder, extended);
    defer search.deinit();
    try merge_long.merge(search.gpa, search.vocabulary, pretoken, tokens_max + 1, &search.known);
    const count = search.countOf(search.known.items);
    if (count <= tokens_max) return .{ .tokens = count, .cut = null };
    search.known.items.len = @min(search.known.items.len, tokens_max);
    while (search.countOf(search.known.items) > tokens_max) search.known.items.len -= 1;
    const known_end = search.lenOf(search.known.items);
    var cut = known_end;
    var end = known_end;
    while (end < extended.len and end - cut < search.vocabulary.token_len_max) {
        end += 1;
        const tokens = try search.countPrefix(end, known_end) orelse break;
        if (tokens <= tokens_max) cut = end;
    }
    // A pretoken that is a token as a whole is one token, even if merging cannot produce it.
    var whole: usize = @min(extended.len, search.vocabulary.token_len_max);
    while (tokens_max > 0 and whole > cut) : (whole -= 1) {
        if (search.vocabulary.find(extended[0..whole]) != null) cut = whole;
    }
    return .{ .tokens = 0, .cut = cut };
}

/// Returns the start of the longest suffix of `piece` with at most `tokens_max` tokens.
fn suffixStartInside(
    encoder: *Encoder,
    piece: []const u8,
    tokens_max: usize,
) Error!usize {
    var search: Search = .init(encoder, piece);
    defer search.deinit();
    var len = tokens_max *| 8 +| 64;
    while (true) : (len *|= 2) {
        const tail = piece[piece.len -| len..];
        search.known.clearRetainingCapacity();
        try merge_long.merge(search.gpa, search.vocabulary, tail, tail.len, &search.known);
        if (search.countOf(search.known.items) > tokens_max or len >= piece.len) break;
    }
    var extra = search.known.items.len -| tokens_max;
    while (search.countOf(search.known.items[extra..]) > tokens_max) extra += 1;
    search.known.replaceRangeAssumeCapacity(0, extra, &.{});
    const known_start = piece.len - search.lenOf(search.known.items);
    var cut = known_start;
    var start = known_start;
    while (start > 0 and cut - start < search.vocabulary.token_len_max) {
        start -= 1;
        const tokens = try search.countSuffix(start, known_start) orelse break;
        if (tokens <= tokens_max) cut = start;
    }
    var whole = piece.len -| search.vocabulary.token_len_max;
    while (tokens_max > 0 and whole < cut) : (whole += 1) {
        if (search.vocabulary.find(piece[whole..]) != null) cut = whole;
    }
    return cut;
}

/// The search for a cut inside one long pretoken.
///
/// The tokens of a part equal those of the whole up to a boundary where two neighbours are the
/// encoding of their bytes (merge/long.zig). So only the end of each candidate at the cut is
/// encoded. Its token farthest from the cut is checked against the known token next to it. The
/// search ends after as many failures in a row as a token can have bytes. The reason: a part that
/// fits still fits without its token at the cut, so a gap between two fitting parts is never wider.
const Search = struct {
    gpa: Allocator,
    vocabulary: *const Vocabulary,
    piece: []const u8,
    /// Tokens of the longest part that is known to fit.
    known: std.ArrayList(u32) = .empty,
    part: Window = .empty,
    seam: Window = .empty,
    whole: std.ArrayList(u32) = .empty,
    whole_bytes: usize = 0,

    fn init(encoder: *Encoder, piece: []const u8) Search {
        return .{
            .gpa = encoder.gpa,
            .vocabulary = &encoder.tokenizer.vocabulary,
            .piece = piece,
        };
    }

    fn deinit(self: *Search) void {
        self.known.deinit(self.gpa);
        self.part.deinit(self.gpa);
        self.seam.deinit(self.gpa);
        self.whole.deinit(self.gpa);
    }

    fn lenOf(self: *const Search, tokens: []const u32) usize {
        var len: usize = 0;
        for (tokens) |id| len += self.vocabulary.partLen(id);
        return len;
    }

    /// Returns the final number of ids.
    fn countOf(self: *const Search, tokens: []const u32) usize {
        return expand.lenOf(self.vocabulary, tokens);
    }

    /// Returns the number of tokens of `piece[0..end]`, or null if that would take too long.
    /// `known` ends at `known_end`.
    fn countPrefix(self: *Search, end: usize, known_end: usize) Allocator.Error!?usize {
        const known = self.known.items;
        var kept = known.len -| tokens_away;
        var base = known_end - self.lenOf(known[kept..]);
        for (0..seams_max) |_| {
            const part = try self.part.merge(self.gpa, self.vocabulary, self.piece[base..end]);
            if (kept == 0 or try self.fits(base, known[kept - 1], part[0])) {
                return self.countOf(known[0..kept]) + self.countOf(part);
            }
            kept -= 1;
            base -= self.vocabulary.partLen(known[kept]);
        }
        return self.countWhole(self.piece[0..end]);
    }

    /// Returns the number of tokens of `piece[start..]`, or null if that would take too long.
    /// `known` starts at `known_start` and ends with the piece.
    fn countSuffix(self: *Search, start: usize, known_start: usize) Allocator.Error!?usize {
        const known = self.known.items;
        var dropped: usize = @min(known.len, tokens_away);
        var base = known_start + self.lenOf(known[0..dropped]);
        for (0..seams_max) |_| {
            const part = try self.part.merge(self.gpa, self.vocabulary, self.piece[start..base]);
            const last = part[part.len - 1];
            if (dropped == known.len or try self.fits(base, last, known[dropped])) {
                return self.countOf(part) + self.countOf(known[dropped..]);
            }
            base += self.vocabulary.partLen(known[dropped]);
            dropped += 1;
        }
        return self.countWhole(self.piece[start..]);
    }

    /// Whether two tokens that meet at `base` are the encoding of their bytes.
    fn fits(self: *Search, base: usize, left: u32, right: u32) Allocator.Error!bool {
        const start = base - self.vocabulary.partLen(left);
        const pair = self.piece[start .. base + self.vocabulary.partLen(right)];
        return self.seam.isPair(self.gpa, self.vocabulary, pair, left);
    }

    fn countWhole(self: *Search, part: []const u8) Allocator.Error!?usize {
        self.whole_bytes += part.len;
        if (self.whole_bytes > whole_bytes_max) return null;
        self.whole.clearRetainingCapacity();
        try merge_long.merge(self.gpa, self.vocabulary, part, part.len, &self.whole);
        return self.countOf(self.whole.items);
    }
};

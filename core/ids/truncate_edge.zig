//! One long pretoken and a number of tokens → the cut, without encoding the whole pretoken.
//!
//! The tokens of a part equal those of the whole up to a boundary where two neighbours are the
//! encoding of their bytes (merge/long.zig). So only the end of each candidate at the cut is
//! encoded. Its token farthest from the cut is checked against the known token next to it. The
//! search ends after as many failures in a row as a token can have bytes. The reason: a part that
//! fits still fits without its token at the cut, so a gap between two fitting parts is never wider.

const std = @import("std");
const Allocator = std.mem.Allocator;
const ids = @import("../ids.zig");
const expand = @import("../merge/byte_fallback.zig");
const merge_long = @import("../merge/long.zig");
const Window = @import("../merge/window.zig").Window;
const Vocabulary = @import("../vocabulary.zig").Vocabulary;

/// Pretokens of at least this length are cut here.
pub const len_min = 1024;

/// A candidate is joined to the known tokens this many tokens away from the cut, or a few more.
const tokens_away = 48;
const seams_max = 16;

/// Candidates that match at no boundary (a run of one letter whose tokens all shift) are encoded
/// completely, up to this total: about a third of a second.
const whole_bytes_max = 8 << 20;

/// Whether a pretoken of `len` bytes, continued as `extended`, is cut here: it must be long, and
/// its parts must be encoded like the whole.
pub fn fits(encoder: *const ids.Encoder, extended: []const u8, len: usize) bool {
    const vocabulary = &encoder.tokenizer.vocabulary;
    return len > len_min and vocabulary.leftover != .settle and !vocabulary.isTied(extended);
}

pub const Prefix = struct {
    /// Number of tokens of the whole pretoken, if it does not exceed the limit.
    tokens: usize,
    /// Otherwise the length of the longest prefix within the limit.
    cut: ?usize,
};

/// Finds the longest prefix of `pretoken` with at most `tokens_max` tokens. `extended` is as long
/// as the pretoken could become if the text were cut after it; a run of whitespace can grow that
/// way.
pub fn prefixEnd(
    encoder: *ids.Encoder,
    pretoken: []const u8,
    extended: []const u8,
    tokens_max: usize,
) ids.Error!Prefix {
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
pub fn suffixStart(encoder: *ids.Encoder, piece: []const u8, tokens_max: usize) ids.Error!usize {
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

    fn init(encoder: *ids.Encoder, piece: []const u8) Search {
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

//! One long pretoken, a number of tokens → where to cut it, without encoding all of it.
//!
//! The tokens of a part are those of the whole up to a seam where two neighbours fit (see
//! merge_long.zig). So only the end of each candidate at the cut is encoded, and the token there
//! is checked against its neighbour in what is known. The search ends after as many failures in a
//! row as a token can have bytes: a part that fits, less its token at the cut, fits as well, so a
//! longer one cannot follow a wider gap.

const std = @import("std");
const Allocator = std.mem.Allocator;
const ids = @import("../ids.zig");
const expand = @import("expand.zig");
const merge_long = @import("merge_long.zig");
const Window = @import("window.zig").Window;
const Vocabulary = @import("../vocabulary.zig").Vocabulary;

/// From this length on a pretoken is cut here.
pub const len_min = 1024;

/// A candidate is joined to the known tokens this many tokens away from the cut, or a few more.
const tokens_away = 48;
const seams_max = 16;

/// Candidates that fit no seam (a run of one letter whose tokens all shift) are encoded as a
/// whole, until they add up to this: about a third of a second.
const whole_bytes_max = 8 << 20;

/// Whether a pretoken of `len` bytes, that goes on as `extended`, is cut here: a long one whose
/// parts are encoded as they are in the whole.
pub fn fits(encoder: *const ids.Encoder, extended: []const u8, len: usize) bool {
    const vocabulary = &encoder.tokenizer.vocabulary;
    return len > len_min and vocabulary.leftover != .settle and !vocabulary.isTied(extended);
}

pub const Prefix = struct {
    /// The tokens of the whole pretoken, where they are no more than were asked for.
    tokens: usize,
    /// Else: the longest part that takes no more, as a length.
    cut: ?usize,
};

/// How long a prefix of `pretoken` takes at most `tokens_max` tokens. `extended` goes on as far as
/// the pretoken could if the text were cut behind it, as white space does.
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
    // A pretoken that is a token as a whole is one token, even if no merges lead to it.
    var whole: usize = @min(extended.len, search.vocabulary.token_len_max);
    while (tokens_max > 0 and whole > cut) : (whole -= 1) {
        if (search.vocabulary.find(extended[0..whole]) != null) cut = whole;
    }
    return .{ .tokens = 0, .cut = cut };
}

/// Where the longest suffix of `piece` starts that takes at most `tokens_max` tokens.
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

    /// How many ids they are in the end.
    fn countOf(self: *const Search, tokens: []const u32) usize {
        return expand.lenOf(self.vocabulary, tokens);
    }

    /// Tokens of `piece[0..end]`; null when that would take too long. `known` ends at `known_end`.
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

    /// Tokens of `piece[start..]`; null when that would take too long. `known` starts at
    /// `known_start` and ends with the piece.
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

    /// Whether two tokens that meet at `base` are what their bytes encode to.
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

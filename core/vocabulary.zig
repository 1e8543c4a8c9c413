//! Tokens → vocabulary: the bytes of every id, and the two lookups that encoding needs.
//!
//! Here an id is a rank, as in tiktoken's vocabularies: the lower rank merges first. If a file has
//! another order, its ids are mapped on input and output (`public`, `ranks`). Two hash tables map
//! bytes to an id, and two ids to their merged id. The second needs only pairs that can occur.
//!
//! Merges inside a token never depend on its context. So the only pair that can become token t is
//! the last step of encoding t alone, its *canonical* pair. A packed vocabulary contains these
//! pairs. For a rank file they are found by merging every token. If the ranks do not allow that,
//! every split of every token is inserted, since a pair that never occurs is harmless.
//!
//! **Invariant** ids are below `id_limit`, so a pair and its merge fit one 64-bit slot.
//! **Invariant** every table is at most half full, so a search always finds an empty slot.

const std = @import("std");
const Allocator = std.mem.Allocator;
const image = @import("vocabulary/image.zig");
const TokenTable = @import("vocabulary/token_table.zig").TokenTable;
const PairTable = @import("vocabulary/pair_table.zig").PairTable;
const memory = @import("platform.zig").memory;
const canonical = @import("vocabulary/canonical.zig");
const merging = @import("vocabulary/merged.zig");
const models = @import("vocabulary/model.zig");
const Numbered = @import("vocabulary/ordered.zig").Numbered;
const Ties = @import("vocabulary/ties.zig").Ties;
const Unreached = @import("vocabulary/unreached.zig").Unreached;
pub const Every = @import("vocabulary/every.zig").Every;

pub const Model = models.Model;
pub const Missing = models.Missing;

/// Above the ids there is space for a placeholder per byte and for `PairTable.stranger`.
pub const id_limit = PairTable.id_limit - 257;

/// Real tokens have at most a few hundred bytes. The limit rejects forged files.
pub const token_len_limit = std.math.maxInt(u16);
pub const bytes_len_limit = 1 << 30;

/// Represents any length from here on.
pub const long_len = 255;

/// Maximum length of part of a character.
pub const char_len_max = 4;

pub const no_pair = PairTable.none;

/// InvalidImage: the packed vocabulary contradicts its header.
pub const Error = models.Error || error{InvalidImage};

pub const failureOf = @import("vocabulary/failures.zig").failureOf;

/// How symbols that are not tokens are handled after merging.
pub const Leftover = enum {
    /// A byte without a token is an error.
    refuse,
    /// Part of a character that is not a token becomes the tokens of its bytes.
    expand,
    /// The pretoken is processed as a whole (merge/unknown.zig).
    settle,
};

pub const Vocabulary = struct {
    /// The bytes of all tokens, concatenated in order of id.
    bytes: []u8,
    /// Token id is `bytes[offsets[id]..offsets[id + 1]]`. An unused id has no bytes.
    offsets: []u32,
    /// The length of each token, or `long_len` for longer ones. A quarter the size of the offsets,
    /// so more of them are in the cache when offsets are computed.
    lengths: []u8,
    /// The id of each single byte. A byte without a token has a placeholder at or above `ids_end`.
    byte_ids: [256]u32,
    /// One past the largest id.
    ids_end: u32,
    token_count: u32,
    token_len_max: u32,
    /// The id of a token without bytes, as in Whisper's rank file. It is only decoded.
    empty_id: ?u32,
    tokens: TokenTable,
    pairs: PairTable,
    /// The merge of two bytes, with which merging starts. All bits are inverted, so that `no_pair`
    /// is 0, and pages without merges need no memory: 100 KB of 256 for 2,048 tokens of English.
    byte_pairs: *align(memory.page_size) [1 << 16]u32,
    /// Whether merging produces every token that can be found, as in a trained vocabulary.
    is_closed: bool,
    /// If it is not closed, the tokens that can be found but not merged. Null if they are not
    /// known.
    unreached: ?Unreached = null,
    /// The public id of each rank and the rank of each public id, `none` if there is none. Null if
    /// the two are the same.
    public: ?[]u32 = null,
    ranks: ?[]u32 = null,
    /// Ranks that are part of a character and have no public id.
    prefixes_start: u32 = 0,
    prefixes_end: u32 = 0,
    leftover: Leftover = .refuse,
    missing: Missing = .fail,
    /// The rank of the unknown token.
    unk: u32 = no_pair,
    fuse_unk: bool = false,
    /// Whether merging starts with characters.
    characters: bool = false,
    /// Whether some tokens are only decoded, and are not in `tokens`.
    has_hidden: bool = false,
    ties: ?Ties = null,
    /// All merges, for BPE dropout.
    every: ?Every = null,

    /// Builds a vocabulary. `lengths` splits `bytes` into tokens, and `ids` are their ids, in any
    /// order. All are copied. On an error `culprit` is the rejected id.
    pub fn fromTokens(
        gpa: Allocator,
        bytes: []const u8,
        lengths: []const u32,
        ids: []const u32,
        seed: u64,
        culprit: *u32,
    ) Error!Vocabulary {
        @setRuntimeSafety(true);
        if (lengths.len != ids.len) return error.InvalidModel;
        if (bytes.len > bytes_len_limit) return error.TooManyBytes;
        var ids_end: u32 = 0;
        var lengths_sum: u64 = 0;
        for (lengths, ids) |length, id| {
            culprit.* = id;
            if (id >= id_limit) return error.IdTooLarge;
            if (length > token_len_limit) return error.TokenTooLong;
            ids_end = @max(ids_end, id + 1);
            lengths_sum += length;
        }
        if (lengths_sum != bytes.len) return error.InvalidModel;
        var self = try allocate(gpa, ids_end, bytes.len);
        errdefer self.deinit(gpa);
        @memset(self.offsets, 0);
        for (lengths, ids) |length, id| {
            culprit.* = id;
            if (self.offsets[id + 1] != 0 or self.empty_id == id) return error.DuplicateToken;
            if (length == 0) {
                if (self.empty_id != null) return error.DuplicateToken;
                self.empty_id = id;
            }
            self.offsets[id + 1] = length;
        }
        for (self.offsets[1..], self.offsets[0..ids_end]) |*end, start| end.* += start;
        var source: usize = 0;
        for (lengths, ids) |length, id| {
            @memcpy(self.bytes[self.offsets[id]..][0..length], bytes[source..][0..length]);
            source += length;
        }
        try self.indexTokens(gpa, seed, null, culprit);
        self.pairs = try .init(gpa, self.token_count, seed);
        if (canonical.enterPairs(&self)) |unreached| {
            self.is_closed = unreached == 0;
            self.unreached = try .of(gpa, &self, null);
        } else {
            self.pairs.deinit(gpa);
            self.pairs = .empty;
            self.pairs = try canonical.splits(gpa, &self, seed);
        }
        return self;
    }

    /// Reads tokens and canonical pairs from a packed vocabulary (image.zig): milliseconds for
    /// 200,000 tokens.
    pub fn fromImage(gpa: Allocator, packed_image: []const u8, seed: u64) Error!Vocabulary {
        @setRuntimeSafety(true);
        var reader = try image.Reader.init(packed_image);
        var self = try allocate(gpa, reader.ids_end, reader.bytes_len);
        errdefer self.deinit(gpa);
        const merges = try gpa.alloc(PairTable.Merge, reader.ids_end);
        defer gpa.free(merges);
        const merge_count = try reader.readInto(self.bytes, self.offsets, merges);
        var culprit: u32 = 0;
        try self.indexTokens(gpa, seed, null, &culprit);
        self.pairs = try .init(gpa, merge_count, seed);
        self.pairs.putAll(merges[0..merge_count]);
        // One pair for each token except the single bytes.
        var single_bytes: u32 = 0;
        for (self.byte_ids) |id| single_bytes += @intFromBool(id < self.ids_end);
        self.is_closed = merge_count + single_bytes == self.token_count;
        self.unreached = try .of(gpa, &self, null);
        return self;
    }

    /// Builds the vocabulary of any model. On an error `culprit` is the rejected id or merge.
    pub fn fromModel(
        gpa: Allocator,
        model: *const Model,
        seed: u64,
        culprit: *u32,
    ) Error!Vocabulary {
        @setRuntimeSafety(true);
        try checkSizes(model, culprit);
        if (model.isRanks()) {
            return fromTokens(gpa, model.bytes, model.lengths, model.ids, seed, culprit);
        }
        var arena: std.heap.ArenaAllocator = .init(gpa);
        defer arena.deinit();
        var tokens: models.Tokens = try .init(arena.allocator(), model, culprit);
        const pairs = try merging.find(&tokens, culprit);
        const numbered: Numbered = try .init(arena.allocator(), &tokens, &pairs);
        const symbols = numbered.symbols.items;
        if (symbols.len >= id_limit) return error.IdTooLarge;
        var bytes_len: usize = 0;
        for (symbols) |symbol| {
            if (symbol != no_pair) bytes_len += tokens.tokenBytes(symbol).len;
        }
        var self = try allocate(gpa, @intCast(symbols.len), bytes_len);
        errdefer self.deinit(gpa);
        const hidden = try arena.allocator().alloc(bool, symbols.len);
        var end: u32 = 0;
        for (symbols, hidden, 0..) |symbol, *is_hidden, rank| {
            self.offsets[rank] = end;
            is_hidden.* = symbol != no_pair and !numbered.isIndexed(symbol);
            if (symbol == no_pair) continue;
            const token = tokens.tokenBytes(symbol);
            @memcpy(self.bytes[end..][0..token.len], token);
            end += @intCast(token.len);
            if (token.len > 0) continue;
            if (self.empty_id != null) return error.DuplicateToken;
            self.empty_id = @intCast(rank);
        }
        self.offsets[symbols.len] = end;
        self.indexTokens(gpa, seed, hidden, culprit) catch |failure| {
            if (failure == error.DuplicateToken) culprit.* = model.ids[symbols[culprit.*]];
            return failure;
        };
        try self.take(gpa, model, &numbered, hidden, seed);
        if (model.dropout > 0) self.every = try .init(gpa, &numbered, culprit);
        return self;
    }

    fn checkSizes(model: *const Model, culprit: *u32) Error!void {
        if (model.bytes.len > bytes_len_limit) return error.TooManyBytes;
        if (model.lengths.len != model.ids.len) return error.InvalidModel;
        for (model.lengths, model.ids) |length, id| {
            culprit.* = id;
            if (id >= id_limit) return error.IdTooLarge;
            if (length > token_len_limit) return error.TokenTooLong;
        }
    }

    /// Adds the pairs and settings of a model whose tokens are already stored.
    fn take(
        self: *Vocabulary,
        gpa: Allocator,
        model: *const Model,
        numbered: *const Numbered,
        hidden: []const bool,
        seed: u64,
    ) Error!void {
        const merges = numbered.merges.items;
        try self.enterMerges(gpa, merges, seed);
        self.is_closed = numbered.is_closed;
        self.unreached = try .of(gpa, self, hidden);
        self.token_count = @intCast(model.ids.len);
        self.prefixes_start = numbered.prefixes_start;
        self.prefixes_end = numbered.prefixes_end;
        // The maximum also covers the bytes that remain of a character.
        if (model.characters) self.token_len_max = @max(self.token_len_max, char_len_max);
        self.characters = model.characters;
        self.missing = model.missing;
        self.fuse_unk = model.fuse_unk;
        if (model.missing == .unk) self.unk = numbered.ranks[numbered.tokens.unk];
        self.leftover = self.leftoverOf();
        if (try numbered.classes(gpa)) |classes| self.ties = try .init(gpa, classes, self, merges);
        if (numbered.is_mapped) try self.map(gpa, model.ids, numbered.symbols.items);
    }

    /// Whether merges are skipped at random (BPE dropout).
    pub fn isRandom(self: *const Vocabulary) bool {
        return self.every != null;
    }

    /// Whether every byte is a token.
    pub fn hasAllBytes(self: *const Vocabulary) bool {
        return std.mem.max(u32, &self.byte_ids) < self.ids_end;
    }

    /// Derives the handling of remaining symbols from that of missing ones.
    pub fn leftoverOf(self: *const Vocabulary) Leftover {
        if (self.missing == .bytes) return .expand;
        const is_refused = self.missing == .fail or self.hasAllBytes();
        return if (is_refused and !self.characters) .refuse else .settle;
    }

    pub fn enterMerges(
        self: *Vocabulary,
        gpa: Allocator,
        merges: []const PairTable.Merge,
        seed: u64,
    ) Error!void {
        self.pairs = try .init(gpa, merges.len, seed);
        self.pairs.putAll(merges);
        for (merges) |merge| {
            const left, const right = .{ self.partBytes(merge.left), self.partBytes(merge.right) };
            if (left.len != 1 or right.len != 1) continue;
            self.byte_pairs[@as(usize, left[0]) << 8 | right[0]] = ~merge.id;
        }
    }

    fn map(
        self: *Vocabulary,
        gpa: Allocator,
        ids: []const u32,
        symbols: []const u32,
    ) Error!void {
        const public = try gpa.alloc(u32, symbols.len);
        self.public = public;
        const ranks = try gpa.alloc(u32, if (ids.len == 0) 0 else std.mem.max(u32, ids) + 1);
        self.ranks = ranks;
        @memset(ranks, no_pair);
        for (symbols, public, 0..) |symbol, *id, rank| {
            id.* = if (symbol < ids.len) ids[symbol] else no_pair;
            if (symbol < ids.len) ranks[id.*] = @intCast(rank);
        }
    }

    pub fn allocate(gpa: Allocator, ids_end: u32, bytes_len: usize) Error!Vocabulary {
        const bytes = try gpa.alloc(u8, bytes_len);
        errdefer gpa.free(bytes);
        const byte_pairs = try memory.map(u32, 1 << 16);
        errdefer memory.unmap(byte_pairs);
        const offsets = try gpa.alloc(u32, @as(usize, ids_end) + 1);
        errdefer gpa.free(offsets);
        return .{
            .bytes = bytes,
            .byte_pairs = byte_pairs[0 .. 1 << 16],
            .offsets = offsets,
            .lengths = try gpa.alloc(u8, ids_end),
            .byte_ids = undefined,
            .ids_end = ids_end,
            .token_count = 0,
            .token_len_max = 1,
            .empty_id = null,
            .tokens = .empty,
            .pairs = .empty,
            .is_closed = false,
        };
    }

    pub fn deinit(self: *Vocabulary, gpa: Allocator) void {
        gpa.free(self.bytes);
        gpa.free(self.offsets);
        gpa.free(self.lengths);
        memory.unmap(@as([]align(memory.page_size) u32, self.byte_pairs));
        if (self.public) |public| gpa.free(public);
        if (self.ranks) |ranks| gpa.free(ranks);
        if (self.unreached) |*unreached| unreached.deinit(gpa);
        if (self.ties) |*ties| ties.deinit(gpa);
        if (self.every) |*every| every.deinit(gpa);
        self.tokens.deinit(gpa);
        self.pairs.deinit(gpa);
        self.* = undefined;
    }

    /// Builds the lengths and the token table. `hidden` marks ranks that are not in the table.
    /// Without it, all are, and any two bytes that form a token merge.
    pub fn indexTokens(
        self: *Vocabulary,
        gpa: Allocator,
        seed: u64,
        hidden: ?[]const bool,
        culprit: *u32,
    ) Error!void {
        for (self.lengths, self.offsets[0..self.ids_end], self.offsets[1..]) |*len, start, end| {
            len.* = @intCast(@min(end - start, long_len));
        }
        for (&self.byte_ids, 0..) |*id, byte| id.* = self.ids_end + @as(u32, @intCast(byte));
        self.tokens = try .init(gpa, self.ids_end, seed);
        // Hashes of the next tokens, whose slots are being prefetched.
        var hashes: [16]u64 = undefined;
        for (0..@as(usize, self.ids_end) + hashes.len) |index| {
            const hash = hashes[index % hashes.len];
            if (index < self.ids_end) {
                const ahead = self.tokenBytes(@intCast(index));
                hashes[index % hashes.len] = self.tokens.prepare(ahead);
            }
            if (index < hashes.len) continue;
            const id: u32 = @intCast(index - hashes.len);
            const token = self.tokenBytes(id);
            if (token.len == 0) continue;
            if (hidden) |is_hidden| if (is_hidden[id]) {
                self.has_hidden = true;
                continue;
            };
            culprit.* = id;
            self.token_count += 1;
            self.token_len_max = @max(self.token_len_max, @as(u32, @intCast(token.len)));
            if (token.len == 1) self.byte_ids[token[0]] = id;
            if (token.len == 2 and hidden == null) {
                self.byte_pairs[@as(usize, token[0]) << 8 | token[1]] = ~id;
            }
            if (!self.tokens.put(self, token, id, hash)) return error.DuplicateToken;
        }
    }

    /// Returns the bytes of an id below `ids_end`; empty for an unused id.
    pub inline fn tokenBytes(self: *const Vocabulary, id: u32) []const u8 {
        return self.bytes[self.offsets[id]..self.offsets[id + 1]];
    }

    /// Returns the bytes of an id during merging: a token, or a single byte.
    pub fn partBytes(self: *const Vocabulary, id: u32) []const u8 {
        return if (id < self.ids_end) self.tokenBytes(id) else &all_bytes[id - self.ids_end];
    }

    /// Returns the rank of a public id, if it has one.
    pub fn rankOf(self: *const Vocabulary, id: u32) ?u32 {
        const ranks = self.ranks orelse return if (id < self.ids_end) id else null;
        return if (id < ranks.len and ranks[id] != no_pair) ranks[id] else null;
    }

    pub fn publicOf(self: *const Vocabulary, rank: u32) u32 {
        const public = self.public orelse return rank;
        return if (rank < public.len) public[rank] else rank;
    }

    /// Converts ranks to public ids, in place.
    pub fn publish(self: *const Vocabulary, ranks: []u32) void {
        self.copyPublic(ranks, ranks);
    }

    /// The same with separate input and output, which may be equal.
    pub fn copyPublic(self: *const Vocabulary, out: []u32, ranks: []const u32) void {
        const public = self.public orelse {
            if (out.ptr != ranks.ptr) @memcpy(out, ranks);
            return;
        };
        for (out, ranks) |*id, rank| id.* = if (rank < public.len) public[rank] else rank;
    }

    /// Returns one past the largest public id.
    pub fn publicEnd(self: *const Vocabulary) u32 {
        return if (self.ranks) |ranks| @intCast(ranks.len) else self.ids_end;
    }

    /// Returns the rank of a token, including those that are only decoded, which takes a linear
    /// search.
    pub fn findAny(self: *const Vocabulary, token: []const u8) ?u32 {
        if (self.find(token)) |rank| return rank;
        if (!self.has_hidden or token.len == 0) return null;
        for (0..self.ids_end) |index| {
            const rank: u32 = @intCast(index);
            if (self.isPrefix(rank)) continue;
            if (std.mem.eql(u8, self.tokenBytes(rank), token)) return rank;
        }
        return null;
    }

    /// Whether it is part of a character, which has no public id.
    pub inline fn isPrefix(self: *const Vocabulary, rank: u32) bool {
        return rank -% self.prefixes_start < self.prefixes_end - self.prefixes_start;
    }

    /// Whether two encodings with this token at the same offset can be joined there, although parts
    /// of characters are expanded: the token cannot result from an expansion.
    pub inline fn isJoint(self: *const Vocabulary, rank: u32) bool {
        return rank >= self.prefixes_end or self.tokenBytes(rank)[0] < 0x80;
    }

    /// Whether merging must use rank classes and positions.
    pub inline fn isTied(self: *const Vocabulary, piece: []const u8) bool {
        return if (self.ties) |*ties| ties.areIn(piece) else false;
    }

    pub inline fn find(self: *const Vocabulary, token: []const u8) ?u32 {
        if (token.len > self.token_len_max) return null;
        return self.tokens.get(self, token);
    }

    pub inline fn bytePair(self: *const Vocabulary, left: u8, right: u8) u32 {
        return ~self.byte_pairs[@as(usize, left) << 8 | right];
    }

    /// Returns the length of the token of an id below `ids_end`.
    pub inline fn tokenLen(self: *const Vocabulary, id: u32) u32 {
        const len = self.lengths[id];
        if (len == long_len) {
            @branchHint(.cold);
            return self.offsets[id + 1] - self.offsets[id];
        }
        return len;
    }

    /// Returns the length of a symbol, which is one byte for a placeholder.
    pub inline fn partLen(self: *const Vocabulary, id: u32) usize {
        return if (id < self.ids_end) self.tokenLen(id) else 1;
    }
};

const all_bytes: [256][1]u8 = blk: {
    var bytes: [256][1]u8 = undefined;
    for (&bytes, 0..) |*byte, value| byte.* = .{@intCast(value)};
    break :blk bytes;
};

test {
    _ = merging;
}

test "vocabulary: every token is found, and no other bytes are" {
    const gpa = std.testing.allocator;
    var culprit: u32 = 0;
    const lengths = [_]u32{ 1, 1, 1, 2, 2 };
    const ids = [_]u32{ 0, 1, 2, 3, 7 };
    var vocabulary: Vocabulary = try .fromTokens(gpa, "abcabbc", &lengths, &ids, 5, &culprit);
    defer vocabulary.deinit(gpa);
    try std.testing.expectEqual(@as(?u32, 3), vocabulary.find("ab"));
    try std.testing.expectEqual(@as(?u32, 7), vocabulary.find("bc"));
    try std.testing.expectEqual(@as(?u32, null), vocabulary.find("ca"));
    try std.testing.expectEqual(@as(?u32, null), vocabulary.find(""));
    try std.testing.expectEqual(@as(u32, 3), vocabulary.pairs.find(0, 1));
    try std.testing.expectEqual(no_pair, vocabulary.pairs.find(1, 0));
    try std.testing.expectEqual(@as(usize, 0), vocabulary.tokenBytes(5).len);
    try std.testing.expectEqual(@as(u32, 8), vocabulary.ids_end);
}

test "vocabulary: tokenLen returns the number of bytes for short and long tokens" {
    const gpa = std.testing.allocator;
    var culprit: u32 = 0;
    const lengths = [_]u32{ 1, 254, 255, 256, 257, 511, 512, 70 };
    const ids = [_]u32{ 0, 1, 2, 4, 5, 6, 7, 9 };
    const bytes: [2116]u8 = @splat('a');
    var vocabulary: Vocabulary = try .fromTokens(gpa, &bytes, &lengths, &ids, 5, &culprit);
    defer vocabulary.deinit(gpa);
    for (0..vocabulary.ids_end) |index| {
        const id: u32 = @intCast(index);
        try std.testing.expectEqual(vocabulary.tokenBytes(id).len, vocabulary.tokenLen(id));
    }
}

test "vocabulary: duplicate tokens and huge ids are rejected" {
    const gpa = std.testing.allocator;
    var culprit: u32 = 0;
    const cases = [_]struct { Error, []const u8, []const u32, []const u32, u32 }{
        .{ error.DuplicateToken, "aa", &.{ 1, 1 }, &.{ 0, 1 }, 1 },
        .{ error.DuplicateToken, "ab", &.{ 1, 1 }, &.{ 3, 3 }, 3 },
        .{ error.DuplicateToken, "a", &.{ 1, 0, 0 }, &.{ 0, 1, 2 }, 2 },
        .{ error.IdTooLarge, "a", &.{1}, &.{id_limit}, id_limit },
    };
    for (cases) |case| {
        const made = Vocabulary.fromTokens(gpa, case[1], case[2], case[3], 0, &culprit);
        try std.testing.expectError(case[0], made);
        try std.testing.expectEqual(case[4], culprit);
    }
}

test "vocabulary: only canonical pairs are inserted if ranks rise" {
    const gpa = std.testing.allocator;
    var culprit: u32 = 0;
    // abc is ab and c, since ab comes first; bca is bc and a.
    const lengths = [_]u32{ 1, 1, 1, 2, 2, 3, 3 };
    const ids = [_]u32{ 0, 1, 2, 3, 4, 5, 6 };
    const bytes = "abcabbcabcbca";
    var vocabulary: Vocabulary = try .fromTokens(gpa, bytes, &lengths, &ids, 5, &culprit);
    defer vocabulary.deinit(gpa);
    try std.testing.expect(vocabulary.pairs.rising);
    try std.testing.expectEqual(@as(u32, 5), vocabulary.pairs.find(3, 2));
    try std.testing.expectEqual(no_pair, vocabulary.pairs.find(0, 4));
    try std.testing.expectEqual(@as(u32, 6), vocabulary.pairs.find(4, 0));
    try std.testing.expectEqual(no_pair, vocabulary.pairs.find(1, 3));
}

test "vocabulary: an unmergeable token is found only as a whole" {
    const gpa = std.testing.allocator;
    var culprit: u32 = 0;
    const lengths = [_]u32{ 1, 1, 2, 4 };
    const ids = [_]u32{ 0, 1, 2, 3 };
    var vocabulary: Vocabulary = try .fromTokens(gpa, "ababbbab", &lengths, &ids, 5, &culprit);
    defer vocabulary.deinit(gpa);
    // b, b, ab: neither b b nor b ab is a token.
    try std.testing.expectEqual(@as(?u32, 3), vocabulary.find("bbab"));
    try std.testing.expect(vocabulary.pairs.rising);
    for (0..3) |left| for (0..3) |right| {
        const merged = vocabulary.pairs.find(@intCast(left), @intCast(right));
        try std.testing.expect(merged == if (left == 0 and right == 1) @as(u32, 2) else no_pair);
    };
}

test "vocabulary: every split is inserted if a symbol has a larger id than its merge" {
    const gpa = std.testing.allocator;
    var culprit: u32 = 0;
    const lengths = [_]u32{ 1, 1, 1, 3, 2 };
    const ids = [_]u32{ 0, 1, 2, 3, 4 };
    var vocabulary: Vocabulary = try .fromTokens(gpa, "abcabcab", &lengths, &ids, 5, &culprit);
    defer vocabulary.deinit(gpa);
    try std.testing.expect(!vocabulary.pairs.rising);
    try std.testing.expectEqual(@as(u32, 3), vocabulary.pairs.find(4, 2));
}

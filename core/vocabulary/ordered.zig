//! Tokens and their pairs → ranks: a number for each symbol, in the order of merging.
//!
//! The core uses ranks, and the lower rank merges first. If the ids are in the order of merging, as
//! in most byte-level models, they are the ranks. Otherwise tokens get new numbers: single bytes,
//! prefixes of multi-byte characters, these characters, the merged tokens in order, and last all
//! unmergeable ones.
//!
//! Characters become merges of bytes that precede all others. In UTF-8 these merges cannot
//! interfere with each other, so they produce the symbols that character-level merging starts with.
//! A *prefix*, two or three bytes of a character, has no public id: if one remains, its character
//! is not a token.

const std = @import("std");
const Allocator = std.mem.Allocator;
const models = @import("model.zig");
const Merged = @import("merged.zig").Merged;
const PairTable = @import("pair_table.zig").PairTable;
const Error = models.Error;
const Tokens = models.Tokens;

const none = models.none;

pub const Numbered = struct {
    arena: Allocator,
    tokens: *Tokens,
    merged: *const Merged,
    is_mapped: bool = true,
    /// Indexed by rank: a symbol; `none` for an unused rank.
    symbols: std.ArrayList(u32) = .empty,
    /// Indexed by symbol: its rank.
    ranks: []u32 = &.{},
    /// Ranks of prefixes, and of characters that are not tokens.
    prefixes_start: u32 = 0,
    prefixes_end: u32 = 0,
    prefixes: std.StringHashMapUnmanaged(u32) = .empty,
    joints: std.ArrayList(Joint) = .empty,
    merges: std.ArrayList(PairTable.Merge) = .empty,
    /// Places of merged tokens in the order of merging.
    reached: std.ArrayList(u32) = .empty,
    is_closed: bool = true,

    pub fn init(arena: Allocator, tokens: *Tokens, merged: *const Merged) Error!Numbered {
        var self: Numbered = .{ .arena = arena, .tokens = tokens, .merged = merged };
        try self.findReached();
        if (self.areIdsRanks()) try self.keepIds() else try self.number();
        try self.addMerges();
        return self;
    }

    fn findReached(self: *Numbered) Error!void {
        const keys = self.merged.keys;
        try self.reached.ensureTotalCapacity(self.arena, keys.len);
        if (self.tokens.model.merges != null) {
            for (self.merged.made, 0..) |place, index| {
                if (place == none or keys[place] != index) continue;
                self.reached.appendAssumeCapacity(place);
            }
            return;
        }
        for (keys, 0..) |key, place| {
            if (key != none) self.reached.appendAssumeCapacity(@intCast(place));
        }
        std.sort.pdq(u32, self.reached.items, self, comesFirst);
    }

    fn comesFirst(self: *Numbered, a: u32, b: u32) bool {
        const keys = self.merged.keys;
        if (keys[a] != keys[b]) return keys[a] < keys[b];
        // Tokens of equal rank can have any order. Shorter ones come first, so that symbols precede
        // their merges (`PairTable.rising`).
        const lens = .{ self.tokens.tokenBytes(a).len, self.tokens.tokenBytes(b).len };
        if (lens[0] != lens[1]) return lens[0] < lens[1];
        return self.tokens.model.ids[a] < self.tokens.model.ids[b];
    }

    /// Returns the rank of a symbol during merging. A byte without a token has a placeholder.
    pub fn rankOf(self: *const Numbered, symbol: u32) u32 {
        if (self.ranks[symbol] != none) return self.ranks[symbol];
        return @as(u32, @intCast(self.symbols.items.len)) + self.tokens.tokenBytes(symbol)[0];
    }

    /// Whether ids are in the order of merging, and every merge has a larger id than its symbols.
    fn areIdsRanks(self: *const Numbered) bool {
        const model = self.tokens.model;
        if (model.characters or model.missing == .bytes) return false;
        if (self.tokens.extras.items.len > 0) return false;
        var before: ?u32 = null;
        for (self.reached.items) |place| {
            const id = model.ids[place];
            const pair = self.merged.pairs[place];
            if (before != null and id <= before.?) return false;
            if (id <= @max(model.ids[pair[0]], model.ids[pair[1]])) return false;
            before = id;
        }
        return true;
    }

    fn keepIds(self: *Numbered) Error!void {
        self.is_mapped = false;
        const ids = self.tokens.model.ids;
        const ids_end = if (ids.len == 0) 0 else std.mem.max(u32, ids) + 1;
        try self.symbols.appendNTimes(self.arena, none, ids_end);
        self.ranks = try self.arena.dupe(u32, ids);
        for (ids, 0..) |id, place| self.symbols.items[id] = @intCast(place);
        for (0..ids.len) |place| self.noteUnreached(@intCast(place));
    }

    /// Whether it is in the token table: mergeable, or found as a whole pretoken.
    pub fn isIndexed(self: *const Numbered, symbol: u32) bool {
        if (symbol >= self.tokens.count) return false;
        if (self.merged.keys[symbol] != none or self.tokens.isSymbol(symbol)) return true;
        return self.tokens.model.whole and self.tokens.kinds[symbol] == .token;
    }

    fn noteUnreached(self: *Numbered, place: u32) void {
        const is_reached = self.merged.keys[place] != none or self.tokens.isSymbol(place);
        if (!is_reached and self.isIndexed(place)) self.is_closed = false;
    }

    fn number(self: *Numbered) Error!void {
        const tokens = self.tokens;
        const count = tokens.count + tokens.extras.items.len;
        self.ranks = try self.arena.alloc(u32, count);
        @memset(self.ranks, none);
        for (tokens.singles) |symbol| {
            if (symbol < tokens.count) try self.add(symbol);
        }
        if (tokens.model.characters) try self.addCharacters();
        for (self.reached.items) |place| try self.add(place);
        for (0..tokens.count) |place| {
            self.noteUnreached(@intCast(place));
            if (self.ranks[place] == none and self.isIndexed(@intCast(place))) {
                try self.add(@intCast(place));
            }
        }
        for (0..tokens.count) |place| {
            if (self.ranks[place] == none) try self.add(@intCast(place));
        }
    }

    fn add(self: *Numbered, symbol: u32) Error!void {
        self.ranks[symbol] = @intCast(self.symbols.items.len);
        try self.symbols.append(self.arena, symbol);
    }

    /// Numbers multi-byte characters, after their prefixes.
    fn addCharacters(self: *Numbered) Error!void {
        const tokens = self.tokens;
        var chars: std.ArrayList(u32) = .empty;
        var values = tokens.chars.valueIterator();
        while (values.next()) |symbol| try chars.append(self.arena, symbol.*);
        // In a deterministic order.
        std.sort.pdq(u32, chars.items, {}, std.sort.asc(u32));
        self.prefixes_start = @intCast(self.symbols.items.len);
        for (2..4) |len| for (chars.items) |symbol| {
            const bytes = tokens.tokenBytes(symbol);
            if (bytes.len > len) try self.addPrefix(bytes[0..len]);
        };
        for ([_]bool{ false, true }) |are_tokens| {
            for (chars.items) |symbol| {
                if ((symbol < tokens.count) != are_tokens) continue;
                try self.add(symbol);
                try self.addJoint(tokens.tokenBytes(symbol), self.ranks[symbol]);
            }
            if (!are_tokens) self.prefixes_end = @intCast(self.symbols.items.len);
        }
    }

    fn addPrefix(self: *Numbered, bytes: []const u8) Error!void {
        const entry = try self.prefixes.getOrPut(self.arena, bytes);
        if (entry.found_existing) return;
        const rank: u32 = @intCast(self.symbols.items.len);
        entry.value_ptr.* = rank;
        const extras = &self.tokens.extras;
        try self.symbols.append(self.arena, @intCast(self.tokens.count + extras.items.len));
        try extras.append(self.arena, bytes);
        try self.addJoint(bytes, rank);
    }

    /// Adds the merge of a prefix of a character with the next byte.
    fn addJoint(self: *Numbered, bytes: []const u8, rank: u32) Error!void {
        const last = bytes.len - 1;
        const left = if (last == 1) none else self.prefixes.get(bytes[0..last]).?;
        try self.joints.append(self.arena, .{
            .left = left,
            .first = bytes[0],
            .last = bytes[last],
            .rank = rank,
        });
    }

    /// Returns the rank of a single byte, or its placeholder after all ranks.
    fn byteRank(self: *const Numbered, byte: u8) u32 {
        const symbol = self.tokens.singles[byte];
        if (symbol < self.tokens.count) return self.ranks[symbol];
        return @as(u32, @intCast(self.symbols.items.len)) + byte;
    }

    fn addMerges(self: *Numbered) Error!void {
        const count = self.joints.items.len + self.reached.items.len;
        try self.merges.ensureTotalCapacity(self.arena, count);
        for (self.joints.items) |joint| self.merges.appendAssumeCapacity(.{
            .left = if (joint.left == none) self.byteRank(joint.first) else joint.left,
            .right = self.byteRank(joint.last),
            .id = joint.rank,
        });
        for (self.reached.items) |place| {
            const pair = self.merged.pairs[place];
            self.merges.appendAssumeCapacity(.{
                .left = self.rankOf(pair[0]),
                .right = self.rankOf(pair[1]),
                .id = self.ranks[place],
            });
        }
    }

    /// Returns for each rank the first rank of those with the same order, among which the leftmost
    /// merges first. Null without ties.
    pub fn classes(self: *const Numbered, gpa: Allocator) Error!?[]u32 {
        if (self.tokens.model.merges != null or self.tokens.model.order == null) return null;
        const keys = self.merged.keys;
        const reached = self.reached.items;
        var has_ties = false;
        for (reached[0..reached.len -| 1], 1..) |place, next| {
            has_ties = has_ties or keys[place] == keys[reached[next]];
        }
        if (!has_ties) return null;
        const firsts = try gpa.alloc(u32, self.symbols.items.len);
        for (firsts, 0..) |*first, rank| first.* = @intCast(rank);
        for (reached[0 .. reached.len - 1], reached[1..]) |before, place| {
            if (keys[before] != keys[place]) continue;
            firsts[self.ranks[place]] = firsts[self.ranks[before]];
        }
        return firsts;
    }
};

/// The last byte of a prefix or character, and the prefix before it, or `none` and the first byte.
const Joint = struct { left: u32, first: u8, last: u8, rank: u32 };

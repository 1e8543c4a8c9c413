//! Step 9, tables of ids: look up numbers instead of bytes. In the source: compile-time tables.
//!
//! The idea: a symbol is an id. Two ids and the id of their merge fit into one number of 64 bits,
//! so a pair is found by one multiplication and one comparison. A table of 65,536 entries has the
//! pairs of bytes. Both tables are made when a vocabulary is loaded. The compiler makes the table
//! of ASCII classes, and one merge loop for each of four sizes of words, with a vector of this
//! size.
//!
//! Costs: 256 KB of tables per vocabulary, and at most two million tokens.
//! Saves: hashing bytes, which was most of the time of step 8.

const std = @import("std");
const heaps = @import("step07_heap.zig");
const simd = @import("step08_simd.zig");
const vocabularies = @import("vocabulary.zig");
const words = @import("words.zig");

const gpa = vocabularies.gpa;
const none = vocabularies.none;
const position_bits = 6;

pub const Encoder = struct {
    heap: heaps.Encoder,
    tables: Tables,

    pub fn init(vocabulary: vocabularies.Vocabulary) !Encoder {
        return .{ .heap = try .init(vocabulary), .tables = try .init(&vocabulary) };
    }

    pub fn encode(self: *Encoder, text: []const u8, out: []u32) !usize {
        return words.encode(Scanner, merge, self, text, out);
    }

    pub fn merge(self: *Encoder, text: []const u8, from: usize, to: usize, out: []u32) !usize {
        const word = text[from..to];
        inline for (.{ 4, 8, 16, 32 }) |lanes| {
            if (word.len < lanes) return mergeIn(lanes, lowestOf, &self.tables, word, out);
        }
        return self.heap.merge(text, from, to, out);
    }
};

pub fn mergeIn(
    comptime lanes: u32,
    comptime lowest_of: anytype,
    tables: anytype,
    word: []const u8,
    out: []u32,
) usize {
    var starts = simd.Starts.init(word.len);
    var ids: [lanes]u32 = undefined;
    var keys: [lanes]u32 = @splat(none);
    for (word, 0..) |byte, at| ids[at] = tables.bytes[byte];
    for (0..word.len - 1) |at| keys[at] = keyOf(tables.bytePair(word[at], word[at + 1]), at);
    while (true) {
        const lowest = lowest_of(&keys);
        if (lowest == none) break;
        const at = lowest & (1 << position_bits) - 1;
        const gone = starts.after(at);
        ids[at] = lowest >> position_bits;
        keys[gone] = none;
        starts.remove(gone);
        const next = starts.after(at);
        keys[at] = if (next == word.len) none else keyOf(tables.pair(ids[at], ids[next]), at);
        if (at == 0) continue;
        const before = starts.before(at);
        keys[before] = keyOf(tables.pair(ids[before], ids[at]), before);
    }
    var count: usize = 0;
    var at: usize = 0;
    while (at < word.len) : (at = starts.after(at)) {
        out[count] = ids[at];
        count += 1;
    }
    return count;
}

pub inline fn lowestOf(keys: anytype) u32 {
    return @reduce(.Min, @as(@Vector(keys.len, u32), keys.*));
}

inline fn keyOf(rank: u32, at: usize) u32 {
    return if (rank == none) none else rank << position_bits | @as(u32, @intCast(at));
}

pub const Pair = packed struct(u64) {
    merged: u22,
    right: u21,
    left: u21,

    pub inline fn key(left: u32, right: u32) u64 {
        return @as(u64, left) << 21 | right;
    }
};
pub const empty: u64 = std.math.maxInt(u64);

/// The ids of bytes and of pairs.
pub const Tables = struct {
    bytes: [256]u32,
    byte_pairs: [1 << 16]u32,
    pairs: []u64,
    shift: u6,

    pub fn init(vocabulary: *const vocabularies.Vocabulary) !Tables {
        var self: Tables = undefined;
        for (0..256) |byte| self.bytes[byte] = vocabulary.rank(&.{@intCast(byte)});
        for (0..1 << 16) |pair_| {
            const both: [2]u8 = .{ @intCast(pair_ >> 8), @intCast(pair_ & 0xFF) };
            self.byte_pairs[pair_] = vocabulary.rank(&both);
        }
        const slots = try std.math.ceilPowerOfTwo(usize, 16 * (vocabulary.ranks.count() + 1));
        self.shift = @intCast(64 - @as(u32, std.math.log2_int(usize, slots)));
        self.pairs = try gpa.alloc(u64, slots);
        @memset(self.pairs, empty);
        var tokens = vocabulary.ranks.iterator();
        while (tokens.next()) |token| {
            for (1..@max(1, token.key_ptr.len)) |at| {
                const left = vocabulary.rank(token.key_ptr.*[0..at]);
                const right = vocabulary.rank(token.key_ptr.*[at..]);
                if (left != none and right != none) self.insert(left, right, token.value_ptr.*);
            }
        }
        return self;
    }

    fn insert(self: *Tables, left: u32, right: u32, id: u32) void {
        var at = self.slotOf(Pair.key(left, right));
        while (self.pairs[at] != empty) at = (at + 1) % self.pairs.len;
        const entry: Pair = .{
            .left = @intCast(left),
            .right = @intCast(right),
            .merged = @intCast(id),
        };
        self.pairs[at] = @bitCast(entry);
    }

    inline fn slotOf(self: *const Tables, key: u64) usize {
        return @intCast(key *% 0x9E3779B97F4A7C15 >> self.shift);
    }

    pub inline fn pair(self: *const Tables, left: u32, right: u32) u32 {
        const key = Pair.key(left, right);
        var at = self.slotOf(key);
        while (true) {
            const entry = self.pairs[at];
            if (entry >> 22 == key) return @intCast(entry & (1 << 22) - 1);
            if (entry == empty) return none;
            at = (at + 1) % self.pairs.len;
        }
    }

    pub inline fn bytePair(self: *const Tables, left: u8, right: u8) u32 {
        return self.byte_pairs[@as(usize, left) << 8 | right];
    }
};

pub const Scanner = words.ByKinds(Kinds);

/// The kinds of step 8, with those of ASCII in a table.
const Kinds = struct {
    const kinds = kinds: {
        @setEvalBranchQuota(10_000);
        var table: [128]words.Kind = undefined;
        for (&table, 0..) |*each, byte| each.* = words.kindOf(byte);
        break :kinds table;
    };

    pub inline fn kind(text: []const u8, at: usize) words.Kind {
        return if (text[at] < 0x80) kinds[text[at]] else words.ScalarKinds.kind(text, at);
    }

    pub const runEnd = simd.Kinds.runEnd;
};

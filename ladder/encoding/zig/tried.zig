//! Ideas of the source that steps 9 and 10 do not contain, each as a variant of one of them.
//!
//! `PerfectHash`, `Automaton` and `Branchless` change one part of step 9, `SeparateKeys` of step
//! 10.

const std = @import("std");
const caching = @import("step10_cache.zig");
const tables = @import("step09_tables.zig");
const vocabularies = @import("vocabulary.zig");
const words = @import("words.zig");

const gpa = vocabularies.gpa;
const Vocabulary = vocabularies.Vocabulary;

/// Step 9 with a perfect hash: no two pairs share a slot, so a look-up never searches. A pair first
/// reads the displacement of its bucket, then its slot. The vocabulary is known at run time only,
/// so the displacements are found when it is loaded.
pub const PerfectHash = struct {
    step: tables.Encoder,
    perfect: Perfect,

    pub fn init(vocabulary: Vocabulary) !PerfectHash {
        const step: tables.Encoder = try .init(vocabulary);
        return .{ .step = step, .perfect = try .init(&step.tables) };
    }

    pub fn encode(self: *PerfectHash, text: []const u8, out: []u32) !usize {
        return words.encode(tables.Scanner, merge, self, text, out);
    }

    fn merge(self: *PerfectHash, text: []const u8, from: usize, to: usize, out: []u32) !usize {
        const word = text[from..to];
        inline for (.{ 4, 8, 16, 32 }) |lanes| {
            if (word.len < lanes) {
                return tables.mergeIn(lanes, tables.lowestOf, &self.perfect, word, out);
            }
        }
        return self.step.merge(text, from, to, out);
    }
};

const Perfect = struct {
    bytes: [256]u32,
    byte_pairs: [1 << 16]u32,
    displacements: []u16,
    slots: []u64,

    fn init(known: *const tables.Tables) !Perfect {
        var pairs: std.ArrayList(u64) = .empty;
        for (known.pairs) |pair_| {
            if (pair_ != tables.empty) try pairs.append(gpa, pair_);
        }
        var size = try std.math.ceilPowerOfTwo(usize, @max(16, 2 * pairs.items.len));
        while (true) : (size *= 2) {
            const self: Perfect = .{
                .bytes = known.bytes,
                .byte_pairs = known.byte_pairs,
                .displacements = try gpa.alloc(u16, size / 4),
                .slots = try gpa.alloc(u64, size),
            };
            @memset(self.displacements, 0);
            @memset(self.slots, tables.empty);
            if (try self.place(pairs.items)) return self;
            gpa.free(self.displacements);
            gpa.free(self.slots);
        }
    }

    /// Finds a displacement for each bucket, the fullest ones first. Returns false if a bucket has
    /// none, as two pairs can collide for all of them.
    fn place(self: *const Perfect, pairs: []const u64) !bool {
        const buckets = try gpa.alloc(std.ArrayList(u64), self.displacements.len);
        @memset(buckets, .empty);
        for (pairs) |pair_| try buckets[self.bucketOf(pair_ >> 22)].append(gpa, pair_);
        var left = pairs.len;
        var size: usize = 64;
        while (left > 0) : (size -= 1) for (buckets, 0..) |bucket, index| {
            if (bucket.items.len != size) continue;
            left -= size;
            while (!self.fits(bucket.items)) {
                if (self.displacements[index] == std.math.maxInt(u16)) return false;
                self.displacements[index] += 1;
            }
            for (bucket.items) |pair_| self.slots[self.slotOf(pair_ >> 22)] = pair_;
        };
        return true;
    }

    fn fits(self: *const Perfect, bucket: []const u64) bool {
        for (bucket, 0..) |pair_, number| {
            const slot = self.slotOf(pair_ >> 22);
            if (self.slots[slot] != tables.empty) return false;
            for (bucket[0..number]) |other| if (self.slotOf(other >> 22) == slot) return false;
        }
        return true;
    }

    inline fn bucketOf(self: *const Perfect, key: u64) usize {
        return @intCast((key *% 0x9E3779B97F4A7C15 >> 40) % self.displacements.len);
    }
    inline fn slotOf(self: *const Perfect, key: u64) usize {
        const displacement: u64 = self.displacements[self.bucketOf(key)];
        const mixed = (key +% displacement *% 0xD6E8FEB86659FD93) *% 0xFF51AFD7ED558CCD;
        return @intCast((mixed >> 32) & (self.slots.len - 1));
    }

    pub inline fn pair(self: *const Perfect, left: u32, right: u32) u32 {
        const key = tables.Pair.key(left, right);
        const entry = self.slots[self.slotOf(key)];
        return if (entry >> 22 == key) @intCast(entry & (1 << 22) - 1) else vocabularies.none;
    }
    pub inline fn bytePair(self: *const Perfect, left: u8, right: u8) u32 {
        return self.byte_pairs[@as(usize, left) << 8 | right];
    }
};

/// Step 9 with a deterministic automaton for words of ASCII, whose table the compiler makes.
pub const Automaton = struct {
    step: tables.Encoder,

    pub fn init(vocabulary: Vocabulary) !Automaton {
        return .{ .step = try .init(vocabulary) };
    }

    pub fn encode(self: *Automaton, text: []const u8, out: []u32) !usize {
        return words.encode(AutomatonScanner, tables.Encoder.merge, &self.step, text, out);
    }
};

const AutomatonScanner = struct {
    const State = enum(u8) { start, letters, numbers, signs, blank, spaces, stop };

    const transitions = transitions: {
        @setEvalBranchQuota(100_000);
        var table: [7][128]State = @splat(@splat(.stop));
        for (0..128) |byte| {
            const kind = words.kindOf(byte);
            const run: State = switch (kind) {
                .letter => .letters,
                .number => .numbers,
                .sign => .signs,
                .space => .spaces,
            };
            table[@intFromEnum(State.start)][byte] = if (byte == ' ') .blank else run;
            table[@intFromEnum(State.blank)][byte] = run;
            table[@intFromEnum(run)][byte] = run;
        }
        break :transitions table;
    };

    pub inline fn wordEnd(text: []const u8, start: usize) usize {
        if (text[start] == '\'') {
            if (words.contraction(text[start + 1 ..])) |len| return start + 1 + len;
        }
        var state: State = .start;
        var at = start;
        while (at < text.len) : (at += 1) {
            if (text[at] >= 0x80) return words.Scalar.wordEnd(text, start);
            const next = transitions[@intFromEnum(state)][text[at]];
            if (next == .stop) break;
            state = next;
        }
        const is_cut = state == .spaces and at < text.len and at - start > 1;
        return at - @intFromBool(is_cut);
    }
};

/// Step 9 with the lowest key by arithmetic in a loop, not by a vector.
pub const Branchless = struct {
    step: tables.Encoder,

    pub fn init(vocabulary: Vocabulary) !Branchless {
        return .{ .step = try .init(vocabulary) };
    }

    pub fn encode(self: *Branchless, text: []const u8, out: []u32) !usize {
        return words.encode(tables.Scanner, merge, self, text, out);
    }

    fn merge(self: *Branchless, text: []const u8, from: usize, to: usize, out: []u32) !usize {
        const word = text[from..to];
        inline for (.{ 4, 8, 16, 32 }) |lanes| {
            if (word.len < lanes) {
                return tables.mergeIn(lanes, lowestOf, &self.step.tables, word, out);
            }
        }
        return self.step.merge(text, from, to, out);
    }

    fn lowestOf(keys: anytype) u32 {
        var lowest = keys[0];
        for (keys[1..]) |key| {
            const is_lower: u32 = @intFromBool(key < lowest);
            lowest = is_lower * key + (1 - is_lower) * lowest;
        }
        return lowest;
    }
};

/// Step 10 with hot and cold data apart: keys in one array, and their ids in another.
pub const SeparateKeys = struct {
    merging: tables.Encoder,
    keys: []caching.Key,
    values: []Value,

    const Value = struct { len: u16, count: u16, ids: [11]u32 };

    pub fn init(vocabulary: Vocabulary) !SeparateKeys {
        const keys = try gpa.alloc(caching.Key, 1 << caching.entry_bits);
        const values = try gpa.alloc(Value, 1 << caching.entry_bits);
        for (values) |*value| value.len = 0;
        return .{ .merging = try .init(vocabulary), .keys = keys, .values = values };
    }

    pub fn encode(self: *SeparateKeys, text: []const u8, out: []u32) !usize {
        return words.encode(tables.Scanner, merge, self, text, out);
    }

    fn merge(self: *SeparateKeys, text: []const u8, from: usize, to: usize, out: []u32) !usize {
        const len = to - from;
        if (len > 16) return self.merging.merge(text, from, to, out);
        const key = caching.keyOf(text, from, len);
        const slot = caching.slotOf(key);
        const value = &self.values[slot];
        if (@reduce(.And, self.keys[slot] == key) and value.len == len) {
            out[0..11].* = value.ids;
            return value.count;
        }
        const count = try self.merging.merge(text, from, to, out);
        if (count <= 11) {
            self.keys[slot] = key;
            value.len = @intCast(len);
            value.count = @intCast(count);
            @memcpy(value.ids[0..count], out[0..count]);
        }
        return count;
    }
};

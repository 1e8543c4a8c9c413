//! Bytes → ids, in memory: short input by scanning, longer input in rounds and then with a heap.
//!
//! A round merges every occurrence of the lowest-ranked pair in one pass. Runs and repetitions need
//! only a few rounds. When a round finds few pairs, a heap over a linked list does the rest in O(n
//! log n). Rounds keep the order "lowest first, then leftmost" only if no merge enables a
//! lower-ranked one. `PairTable.rising` guarantees that; without it only the heap is used.

const std = @import("std");
const Allocator = std.mem.Allocator;
const Vocabulary = @import("../vocabulary.zig").Vocabulary;
const heaps = @import("../heap.zig");
const merge_short = @import("short.zig");

const none = merge_short.none;

/// A round costs about as much per this many symbols as one merge through the heap.
const parts_per_merge = 48;
/// Padding for the last vector of `lowestOf`.
const padding = 8;

pub const Window = struct {
    ids: std.ArrayList(u32),
    /// The merge of each symbol with the next, or `none`.
    merged: std.ArrayList(u32),
    previous: std.ArrayList(u32),
    next: std.ArrayList(u32),
    /// merged id << 32 | index of the left symbol: the lowest id first, then the leftmost.
    heap: heaps.Numbers,
    /// Replaces ids in the heap keys if several tokens have the same rank.
    classes: ?[]const u32 = null,

    pub const empty: Window = .{
        .ids = .empty,
        .merged = .empty,
        .previous = .empty,
        .next = .empty,
        .heap = .{},
    };

    pub fn deinit(self: *Window, gpa: Allocator) void {
        self.ids.deinit(gpa);
        self.merged.deinit(gpa);
        self.previous.deinit(gpa);
        self.next.deinit(gpa);
        self.heap.deinit(gpa);
    }

    /// Whether `pair` is encoded as two tokens with `left` first.
    pub fn isPair(
        self: *Window,
        gpa: Allocator,
        vocabulary: *const Vocabulary,
        pair: []const u8,
        left: u32,
    ) Allocator.Error!bool {
        const ids = try self.merge(gpa, vocabulary, pair);
        return ids.len == 2 and ids[0] == left;
    }

    /// Returns the ids of `piece`, which has at least one byte. Valid until the next call.
    pub fn merge(
        self: *Window,
        gpa: Allocator,
        vocabulary: *const Vocabulary,
        piece: []const u8,
    ) Allocator.Error![]const u32 {
        try self.ids.resize(gpa, @max(piece.len, merge_short.len_max));
        if (piece.len <= merge_short.len_max) {
            const out = self.ids.items[0..merge_short.len_max];
            return out[0..merge_short.merge(vocabulary, piece, out)];
        }
        try self.merged.resize(gpa, piece.len + padding);
        self.fill(vocabulary, piece);
        const count = if (vocabulary.pairs.rising) self.mergeRounds(vocabulary) else piece.len;
        return self.mergeHeap(gpa, vocabulary, count);
    }

    /// The same in order of rank class and position, for a vocabulary with ties.
    pub fn mergeTied(
        self: *Window,
        gpa: Allocator,
        vocabulary: *const Vocabulary,
        piece: []const u8,
    ) Allocator.Error![]const u32 {
        try self.ids.resize(gpa, piece.len);
        try self.merged.resize(gpa, piece.len + padding);
        self.fill(vocabulary, piece);
        self.classes = vocabulary.ties.?.classes;
        defer self.classes = null;
        return self.mergeHeap(gpa, vocabulary, piece.len);
    }

    fn fill(self: *Window, vocabulary: *const Vocabulary, piece: []const u8) void {
        for (self.ids.items, piece) |*id, byte| id.* = vocabulary.byte_ids[byte];
        for (self.merged.items[0 .. piece.len - 1], 0..) |*id, index| {
            id.* = vocabulary.bytePair(piece[index], piece[index + 1]);
        }
        @memset(self.merged.items[piece.len - 1 ..][0..padding], none);
    }

    /// Runs rounds while they pay off. Returns the number of remaining symbols.
    fn mergeRounds(self: *Window, vocabulary: *const Vocabulary) usize {
        var count = self.ids.items.len;
        while (true) {
            const lowest = lowestOf(self.merged.items, count - 1);
            if (lowest == none) return count;
            const left = self.mergeRound(vocabulary, lowest, count);
            const merges = count - left;
            count = left;
            if (merges * parts_per_merge < count) return count;
        }
    }

    /// Merges all pairs that become `lowest`, from left to right.
    fn mergeRound(self: *Window, vocabulary: *const Vocabulary, lowest: u32, count: usize) usize {
        const ids = self.ids.items;
        const merged = self.merged.items;
        var write: usize = 0;
        var read: usize = 0;
        while (read < count) : (write += 1) {
            const joins = merged[read] == lowest;
            const id = if (joins) lowest else ids[read];
            // A pair keeps its merge unless one of its symbols is new.
            if (write > 0 and (joins or ids[write - 1] == lowest)) {
                merged[write - 1] = vocabulary.pairs.find(ids[write - 1], id);
            }
            ids[write] = id;
            read += if (joins) 2 else 1;
            merged[write] = merged[read - 1];
        }
        @memset(merged[write - 1 ..][0..padding], none);
        return write;
    }

    fn mergeHeap(
        self: *Window,
        gpa: Allocator,
        vocabulary: *const Vocabulary,
        count: usize,
    ) Allocator.Error![]const u32 {
        try self.link(gpa, count);
        const ids = self.ids.items;
        const merged = self.merged.items;
        const previous = self.previous.items;
        const next = self.next.items;
        while (self.heap.pop(.{})) |entry| {
            const left: u32 = @truncate(entry);
            // An entry is stale if one of its symbols has merged with another neighbour.
            if (merged[left] == none or self.keyOf(merged[left]) != entry >> 32) continue;
            const right = next[left];
            const after = next[right];
            ids[left] = merged[left];
            merged[left] = none;
            merged[right] = none;
            next[left] = after;
            if (after != none) {
                previous[after] = left;
                merged[left] = try self.offer(gpa, vocabulary, left, ids[left], ids[after]);
            }
            const before = previous[left];
            if (before != none) {
                merged[before] = try self.offer(gpa, vocabulary, before, ids[before], ids[left]);
            }
        }
        var write: usize = 0;
        var index: u32 = 0;
        while (index != none) : (index = next[index]) {
            ids[write] = ids[index];
            write += 1;
        }
        return ids[0..write];
    }

    fn link(self: *Window, gpa: Allocator, count: usize) Allocator.Error!void {
        try self.previous.resize(gpa, count);
        try self.next.resize(gpa, count);
        self.heap.clear();
        for (self.previous.items, self.next.items, 0..) |*previous, *next, index| {
            previous.* = if (index == 0) none else @intCast(index - 1);
            next.* = if (index + 1 == count) none else @intCast(index + 1);
            const id = self.merged.items[index];
            if (index + 1 == count or id == none) continue;
            try self.heap.push(gpa, .{}, self.keyOf(id) << 32 | index);
        }
    }

    /// Pushes the merge of two neighbours onto the heap and returns it; `none` if they do not
    /// merge.
    inline fn offer(
        self: *Window,
        gpa: Allocator,
        vocabulary: *const Vocabulary,
        index: u32,
        left: u32,
        right: u32,
    ) Allocator.Error!u32 {
        const id = vocabulary.pairs.find(left, right);
        if (id == none) return none;
        try self.heap.push(gpa, .{}, self.keyOf(id) << 32 | index);
        return id;
    }

    inline fn keyOf(self: *const Window, id: u32) u64 {
        return if (self.classes) |classes| classes[id] else id;
    }
};

/// Returns the minimum of the first `count` numbers. Their last vector is padded with `none`.
inline fn lowestOf(numbers: []const u32, count: usize) u32 {
    var lowest: @Vector(padding, u32) = @splat(none);
    var index: usize = 0;
    while (index < count) : (index += padding) {
        lowest = @min(lowest, @as(@Vector(padding, u32), numbers[index..][0..padding].*));
    }
    return @reduce(.Min, lowest);
}

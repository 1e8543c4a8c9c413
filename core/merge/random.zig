//! Pretoken → ids with BPE dropout, which skips merges at random.
//!
//! A queue contains all possible merges, ordered by rank and then by position. The first one is
//! skipped with the model's dropout probability. Skipped merges return to the queue as soon as a
//! later one is not skipped. That holds even if the later one is stale, as in `Word::merge_all` of
//! Hugging Face's library. Merging ends when all remaining merges were skipped in a row.
//!
//! The probability of that depends on the whole pretoken, so pretokens are not split. Ids vary
//! between calls, so they are not cached.
//!
//! Source: Provilkov et al., BPE-Dropout, 2020.

const std = @import("std");
const Allocator = std.mem.Allocator;
const platform = @import("../platform.zig");
const Heap = @import("../heap.zig").Heap;
const merges = @import("../merge.zig");
const unicode = @import("../unicode.zig");
const vocabularies = @import("../vocabulary.zig");
const Every = vocabularies.Every;
const Vocabulary = vocabularies.Vocabulary;
const isMissing = @import("unknown.zig").isMissing;

const none = vocabularies.no_pair;

pub const Merger = struct {
    prng: std.Random.DefaultPrng,
    parts: std.ArrayList(Part) = .empty,
    queue: Heap(Entry, Order, 2) = .{},
    skipped: std.ArrayList(Entry) = .empty,

    pub fn init() Merger {
        return .{ .prng = platform.seededRandom() };
    }

    pub fn deinit(self: *Merger, gpa: Allocator) void {
        self.parts.deinit(gpa);
        self.queue.deinit(gpa);
        self.skipped.deinit(gpa);
    }

    /// Sets `out` to the remaining symbols of `piece`. They include characters that are not tokens,
    /// unless the model drops those; then their neighbours are adjacent.
    pub fn merge(
        self: *Merger,
        merger: *merges.Merger,
        piece: []const u8,
        out: *std.ArrayList(u32),
    ) merges.Error!void {
        const gpa = merger.gpa;
        const vocabulary = merger.vocabulary;
        const every = &vocabulary.every.?;
        out.clearRetainingCapacity();
        try begin(gpa, vocabulary, piece, out);
        self.queue.clear();
        self.skipped.clearRetainingCapacity();
        try self.link(gpa, out.items);
        for (0..out.items.len) |at| try self.offer(gpa, every, @intCast(at));
        const parts = self.parts.items;
        while (self.queue.pop(.{})) |entry| {
            try merger.pollAfter(1);
            if (self.prng.next() >> 40 < every.dropped_end) {
                try self.skipped.append(gpa, entry);
                continue;
            }
            for (self.skipped.items) |back| try self.queue.push(gpa, .{}, back);
            self.skipped.clearRetainingCapacity();
            const at = entry.at;
            const found = self.mergeAt(every, at) orelse continue;
            if (found.order != entry.order or found.id != entry.id) continue;
            const right = parts[at].next;
            parts[at].id = entry.id;
            parts[at].next = parts[right].next;
            parts[right].id = none;
            if (parts[at].next != none) parts[parts[at].next].previous = at;
            if (parts[at].previous != none) try self.offer(gpa, every, parts[at].previous);
            try self.offer(gpa, every, at);
        }
        out.clearRetainingCapacity();
        for (parts) |part| if (part.id != none) out.appendAssumeCapacity(part.id);
    }

    fn link(self: *Merger, gpa: Allocator, list: []const u32) Allocator.Error!void {
        try self.parts.resize(gpa, list.len);
        for (self.parts.items, list, 0..) |*part, id, index| {
            const at: u32 = @intCast(index);
            const next = if (index + 1 == list.len) none else at + 1;
            part.* = .{ .id = id, .previous = at -% 1, .next = next };
        }
    }

    /// Returns the merge of a symbol with its right neighbour.
    fn mergeAt(self: *const Merger, every: *const Every, at: u32) ?Every.Merge {
        const part = self.parts.items[at];
        if (part.id == none or part.next == none) return null;
        return every.merges.get(.{ part.id, self.parts.items[part.next].id });
    }

    fn offer(self: *Merger, gpa: Allocator, every: *const Every, at: u32) Allocator.Error!void {
        const found = self.mergeAt(every, at) orelse return;
        try self.queue.push(gpa, .{}, .{ .order = found.order, .at = at, .id = found.id });
    }
};

/// A symbol. The id of one that was merged into another is `none`.
const Part = struct { id: u32, previous: u32, next: u32 };

const Entry = struct { order: u32, at: u32, id: u32 };

const Order = struct {
    pub fn isBefore(_: Order, a: Entry, b: Entry) bool {
        return if (a.order != b.order) a.order < b.order else a.at < b.at;
    }
};

/// Appends the initial symbols: bytes or characters, and the bytes of unknown characters.
fn begin(
    gpa: Allocator,
    vocabulary: *const Vocabulary,
    piece: []const u8,
    out: *std.ArrayList(u32),
) Allocator.Error!void {
    try out.ensureTotalCapacity(gpa, piece.len);
    const drops = vocabulary.missing == .drop;
    var start: usize = 0;
    while (start < piece.len) {
        const len = if (vocabulary.characters) unicode.decode(piece, start).len else 1;
        const bytes = piece[start..][0..len];
        start += len;
        // Characters are built from their bytes first, and those merges are never skipped.
        var id = vocabulary.byte_ids[bytes[0]];
        for (bytes[1..]) |byte| {
            if (id != none) id = vocabulary.pairs.find(id, vocabulary.byte_ids[byte]);
        }
        if (id != none and !(drops and isMissing(vocabulary, id))) {
            out.appendAssumeCapacity(id);
        } else if (!drops) {
            for (bytes) |byte| out.appendAssumeCapacity(vocabulary.byte_ids[byte]);
        }
    }
}

//! Step 7, priority queue: a heap yields the lowest rank, and symbols form a linked list.
//!
//! The idea: that of step 3. The heap has a pair for each start. A pair that changed stays in the
//! heap and is dropped when it comes up with an outdated rank.
//!
//! Costs: four lists and a heap per word. For short words they cost more than the scans they save.
//! Saves: the search for the lowest rank, so the time of a long word grows with n · log n.

const std = @import("std");
const vocabularies = @import("vocabulary.zig");
const words = @import("words.zig");

const gpa = vocabularies.gpa;
const none = vocabularies.none;

const Candidate = struct { rank: u32, start: u32 };

fn order(_: void, a: Candidate, b: Candidate) std.math.Order {
    return switch (std.math.order(a.rank, b.rank)) {
        .eq => std.math.order(a.start, b.start),
        else => |found| found,
    };
}

pub const Encoder = struct {
    vocabulary: vocabularies.Vocabulary,
    heap: std.PriorityQueue(Candidate, void, order) = .initContext({}),
    /// The start of the next symbol, of the previous one, and the rank of a symbol with the next.
    /// A symbol is identified by its start.
    next: std.ArrayList(u32) = .empty,
    previous: std.ArrayList(u32) = .empty,
    ranks: std.ArrayList(u32) = .empty,

    pub fn init(vocabulary: vocabularies.Vocabulary) !Encoder {
        return .{ .vocabulary = vocabulary };
    }

    pub fn encode(self: *Encoder, text: []const u8, out: []u32) !usize {
        return words.encode(words.Scalar, merge, self, text, out);
    }

    pub fn merge(self: *Encoder, text: []const u8, from: usize, to: usize, out: []u32) !usize {
        const word = text[from..to];
        try self.fill(word);
        while (self.heap.pop()) |best| {
            if (self.ranks.items[best.start] != best.rank) continue; // outdated
            const gone = self.next.items[best.start];
            const after = self.next.items[gone];
            self.ranks.items[gone] = none;
            self.next.items[best.start] = after;
            if (after < word.len) self.previous.items[after] = best.start;
            try self.push(word, best.start);
            if (best.start > 0) try self.push(word, self.previous.items[best.start]);
        }
        var count: usize = 0;
        var start: u32 = 0;
        while (start < word.len) : (count += 1) {
            const end = self.next.items[start];
            out[count] = self.vocabulary.rank(word[start..end]);
            start = end;
        }
        return count;
    }

    fn fill(self: *Encoder, word: []const u8) !void {
        try self.next.resize(gpa, word.len);
        try self.previous.resize(gpa, word.len);
        try self.ranks.resize(gpa, word.len);
        for (0..word.len) |at| {
            self.next.items[at] = @intCast(at + 1);
            self.previous.items[at] = @intCast(at -| 1);
        }
        for (0..word.len) |at| try self.push(word, @intCast(at));
    }

    /// Updates the rank of the pair that starts here, and adds it to the heap.
    fn push(self: *Encoder, word: []const u8, start: u32) !void {
        const middle = self.next.items[start];
        self.ranks.items[start] = none;
        if (middle == word.len) return;
        const rank = self.vocabulary.rank(word[start..self.next.items[middle]]);
        self.ranks.items[start] = rank;
        if (rank != none) try self.heap.push(gpa, .{ .rank = rank, .start = start });
    }
};

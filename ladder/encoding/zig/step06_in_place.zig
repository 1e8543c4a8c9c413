//! Step 6, in place: keep the rank of each pair, and update two of them per merge.
//!
//! The idea: that of step 2. Starts of symbols and ranks of pairs are in two lists that are kept
//! for all words. A merge removes one entry, and looks up the pairs on its left and right.
//!
//! Costs: the lowest rank is still searched, so the time of a long word grows with n².
//! Saves: the allocations, and all but two look-ups per merge.

const std = @import("std");
const vocabularies = @import("vocabulary.zig");
const words = @import("words.zig");

const gpa = vocabularies.gpa;
const none = vocabularies.none;

pub const Encoder = struct {
    vocabulary: vocabularies.Vocabulary,
    /// The start of each symbol, and the end of the word.
    starts: std.ArrayList(usize) = .empty,
    /// The rank of each symbol together with the next one.
    ranks: std.ArrayList(u32) = .empty,

    pub fn init(vocabulary: vocabularies.Vocabulary) !Encoder {
        return .{ .vocabulary = vocabulary };
    }

    pub fn encode(self: *Encoder, text: []const u8, out: []u32) !usize {
        return words.encode(words.Scalar, merge, self, text, out);
    }

    fn merge(self: *Encoder, text: []const u8, start: usize, end: usize, out: []u32) !usize {
        self.starts.clearRetainingCapacity();
        self.ranks.clearRetainingCapacity();
        for (start..end + 1) |at| try self.starts.append(gpa, at);
        for (start..end - 1) |at| {
            try self.ranks.append(gpa, self.vocabulary.rank(text[at .. at + 2]));
        }
        while (self.ranks.items.len > 0) {
            const best = std.mem.indexOfMin(u32, self.ranks.items);
            if (self.ranks.items[best] == none) break;
            _ = self.starts.orderedRemove(best + 1);
            _ = self.ranks.orderedRemove(best);
            if (best > 0) self.update(text, best - 1);
            if (best < self.ranks.items.len) self.update(text, best);
        }
        const starts = self.starts.items;
        for (starts[0 .. starts.len - 1], starts[1..], 0..) |from, to, index| {
            out[index] = self.vocabulary.rank(text[from..to]);
        }
        return starts.len - 1;
    }

    fn update(self: *Encoder, text: []const u8, index: usize) void {
        const starts = self.starts.items;
        self.ranks.items[index] = self.vocabulary.rank(text[starts[index]..starts[index + 2]]);
    }
};

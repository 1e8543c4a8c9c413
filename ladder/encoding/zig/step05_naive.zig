//! Step 5, naive in Zig: step 1 in a compiled language.
//!
//! The idea: the same program, translated. Every merge looks up each pair of symbols in a hash
//! table of all tokens, and makes a new list.
//!
//! Costs: an allocation per merge, and n² look-ups for a word of n bytes.
//! Saves: the interpreter. This is the program with which the source began.

const std = @import("std");
const vocabularies = @import("vocabulary.zig");
const words = @import("words.zig");

const gpa = vocabularies.gpa;
const none = vocabularies.none;

pub const Encoder = struct {
    vocabulary: vocabularies.Vocabulary,

    pub fn init(vocabulary: vocabularies.Vocabulary) !Encoder {
        return .{ .vocabulary = vocabulary };
    }

    pub fn encode(self: *Encoder, text: []const u8, out: []u32) !usize {
        return words.encode(words.Scalar, merge, self, text, out);
    }

    fn merge(self: *Encoder, text: []const u8, start: usize, end: usize, out: []u32) !usize {
        var symbols: std.ArrayList([]const u8) = .empty;
        defer symbols.deinit(gpa);
        for (start..end) |at| try symbols.append(gpa, text[at .. at + 1]);
        while (self.bestPair(symbols.items)) |best| {
            var merged: std.ArrayList([]const u8) = .empty;
            try merged.appendSlice(gpa, symbols.items[0..best]);
            try merged.append(gpa, joined(symbols.items[best..]));
            try merged.appendSlice(gpa, symbols.items[best + 2 ..]);
            symbols.deinit(gpa);
            symbols = merged;
        }
        for (symbols.items, 0..) |symbol, index| out[index] = self.vocabulary.rank(symbol);
        return symbols.items.len;
    }

    /// Returns the index of the pair with the lowest rank, the leftmost of equals.
    fn bestPair(self: *Encoder, symbols: []const []const u8) ?usize {
        var lowest = none;
        var best: ?usize = null;
        for (0..symbols.len - 1) |index| {
            const rank = self.vocabulary.rank(joined(symbols[index..]));
            if (rank < lowest) {
                lowest = rank;
                best = index;
            }
        }
        return best;
    }

    /// Returns the bytes of the first two symbols, which follow each other in the text.
    fn joined(symbols: []const []const u8) []const u8 {
        return symbols[0].ptr[0 .. symbols[0].len + symbols[1].len];
    }
};

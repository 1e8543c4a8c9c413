//! Step 10, cache: merge each distinct word once, and find its ids in one cache line.
//!
//! The idea: that of step 4. A word of at most 16 bytes is its own key, a vector that is compared
//! at once. An entry of the table has the key, the length and up to eleven ids, together 64 bytes,
//! so a hit touches one line of memory. A new word replaces the entry in its place.
//!
//! Costs: 1 MB per encoder. Text that never repeats pays for the look-up without a gain.
//! Saves: nearly all merging, and all branches that depend on the letters of a word.

const std = @import("std");
const tables = @import("step09_tables.zig");
const vocabularies = @import("vocabulary.zig");
const words = @import("words.zig");

pub const entry_bits = 14;
pub const Key = @Vector(16, u8);
const Entry = struct {
    key: Key align(64),
    len: u16,
    count: u16,
    ids: [11]u32,
};

comptime {
    std.debug.assert(@sizeOf(Entry) == 64);
}

pub const Encoder = struct {
    merging: tables.Encoder,
    cache: []Entry,

    pub fn init(vocabulary: vocabularies.Vocabulary) !Encoder {
        const cache = try vocabularies.gpa.alloc(Entry, 1 << entry_bits);
        for (cache) |*entry| entry.len = 0;
        return .{ .merging = try .init(vocabulary), .cache = cache };
    }

    pub fn encode(self: *Encoder, text: []const u8, out: []u32) !usize {
        return words.encode(tables.Scanner, merge, self, text, out);
    }

    fn merge(self: *Encoder, text: []const u8, from: usize, to: usize, out: []u32) !usize {
        const len = to - from;
        if (len > 16) return self.merging.merge(text, from, to, out);
        const key = keyOf(text, from, len);
        const entry = &self.cache[slotOf(key)];
        if (entry.len == len and @reduce(.And, entry.key == key)) {
            // Eleven ids are copied always. The caller has room for more ids than the text needs.
            out[0..11].* = entry.ids;
            return entry.count;
        }
        const count = try self.merging.merge(text, from, to, out);
        if (count <= 11) {
            entry.key = key;
            entry.len = @intCast(len);
            entry.count = @intCast(count);
            @memcpy(entry.ids[0..count], out[0..count]);
        }
        return count;
    }
};

/// The bytes of a word, and zeros after them.
pub inline fn keyOf(text: []const u8, from: usize, len: usize) Key {
    var bytes: [16]u8 = @splat(0);
    if (from + 16 <= text.len) {
        bytes = text[from..][0..16].*;
    } else {
        @memcpy(bytes[0 .. text.len - from], text[from..]);
    }
    const is_inside = std.simd.iota(u8, 16) < @as(Key, @splat(@intCast(len)));
    return @select(u8, is_inside, @as(Key, bytes), @as(Key, @splat(0)));
}

pub inline fn slotOf(key: Key) usize {
    const halves: [2]u64 = @bitCast(key);
    const mixed = (halves[0] ^ std.math.rotl(u64, halves[1], 29)) *% 0x9E3779B97F4A7C15;
    return @intCast(mixed >> 64 - entry_bits);
}

//! Character → its ids and the constraints on splits next to it, as units.zig needs them.
//!
//! The table is built when the first text with such characters is encoded. All threads share it.

const std = @import("std");
const Allocator = std.mem.Allocator;
const platform = @import("../platform.zig");
const merge = @import("../merge.zig");
const Error = merge.Error;
const Merger = merge.Merger;
const Vocabulary = @import("../vocabulary.zig").Vocabulary;
const unicode = @import("../unicode.zig");
const seams_ = @import("seams.zig");
const PairTable = @import("../vocabulary/pair_table.zig").PairTable;

/// The facts about a character. All zero means that they are not computed yet.
pub const About = packed struct(u8) {
    /// Number of its ids.
    count: u2 = 0,
    limits: seams_.Limits = .{},
    /// The table of safe split points has no entries for pairs of ASCII characters.
    is_ascii: bool = false,
    /// Must not be split from its neighbours.
    is_bound: bool = false,

    pub const count_mask: u8 = 3;
    /// Masks. A split after a character with `doubt_behind`, or before one with `doubt_before`,
    /// needs a closer look. So does a split between one with `doubt_last` and one with
    /// `doubt_first`.
    pub const doubt_behind: About = .{ .limits = .{ .behind = true } };
    pub const doubt_before: About = .{ .limits = .{ .before = true } };
    pub const doubt_last: About = .{ .limits = .{ .starts_inside = true } };
    pub const doubt_first: About = .{ .limits = .{ .ends_inside = true } };
};

/// Up to three ids, in output order.
const Ids = [4]u32;

pub const Entry = packed struct(u32) { about: About = .{}, first_id: u24 = 0 };

comptime {
    std.debug.assert(PairTable.id_limit <= std.math.maxInt(u24));
}

pub const Char = struct { code_point: u32, bytes: []const u8, about: About };

pub const Characters = struct {
    seams: seams_.Seams,
    /// Indexed by code point. All threads write the same values, and `entries` is written last.
    ids: *align(platform.memory.page_size) [len]Ids,
    /// The facts and the first id, which is the only one for most characters. A quarter the size of
    /// `ids`.
    entries: *align(platform.memory.page_size) [len]Entry,

    /// Characters below this code point have an entry. Others are never split from their
    /// neighbours.
    const len = 0x10000;

    pub fn create(
        gpa: Allocator,
        vocabulary: *const Vocabulary,
        seed: u64,
    ) Allocator.Error!*Characters {
        const self = try gpa.create(Characters);
        errdefer gpa.destroy(self);
        self.seams = try .init(gpa, vocabulary, vocabulary.ids_end, seed);
        errdefer self.seams.deinit(gpa);
        const values = try platform.memory.map(Ids, len);
        errdefer platform.memory.unmap(values);
        const entries = try platform.memory.map(Entry, len);
        self.ids = values[0..len];
        self.entries = entries[0..len];
        return self;
    }

    pub fn destroy(self: *Characters, gpa: Allocator) void {
        self.seams.deinit(gpa);
        platform.memory.unmap(@as([]align(platform.memory.page_size) Ids, self.ids));
        platform.memory.unmap(@as([]align(platform.memory.page_size) Entry, self.entries));
        gpa.destroy(self);
    }

    /// Returns the character at the start of `text`.
    pub fn charAt(self: *const Characters, merger: *Merger, text: []const u8) Error!Char {
        const char = unicode.decode(text, 0);
        const bytes = text[0..char.len];
        // Invalid UTF-8 decodes as the replacement character, but only a genuine one has three
        // bytes.
        const has_entry = char.code_point < len and
            (char.code_point != unicode.replacement or char.len == 3);
        const about = if (has_entry)
            try self.aboutOf(merger, char.code_point, bytes)
        else
            About{ .is_bound = true };
        return .{ .code_point = char.code_point, .bytes = bytes, .about = about };
    }

    /// Returns the facts about a character, and computes them on first use.
    pub fn aboutOf(
        self: *const Characters,
        merger: *Merger,
        code_point: u32,
        bytes: []const u8,
    ) Error!About {
        const known = @atomicLoad(Entry, &self.entries[code_point], .acquire).about;
        if (known.count != 0) return known;
        // A character has at most three bytes here, and so at most three ids.
        const found = try merger.mergedIds(bytes);
        const about: About = .{
            .count = @intCast(found.len),
            .limits = self.seams.limitsOf(@intCast(code_point), bytes),
            .is_ascii = code_point < 0x80,
            // The table of safe split points treats this character as invalid UTF-8.
            .is_bound = code_point == unicode.replacement,
        };
        for (self.ids[code_point][0..found.len], found) |*place, id| {
            @atomicStore(u32, place, id, .monotonic);
        }
        const entry: Entry = .{ .about = about, .first_id = @intCast(found[0]) };
        @atomicStore(Entry, &self.entries[code_point], entry, .release);
        return about;
    }

    /// Whether no token can cover the boundary between two characters, if no token contains both.
    pub noinline fn mayCut(self: *const Characters, left: Char, right: Char) bool {
        if (left.about.is_ascii and right.about.is_ascii) return false;
        if (left.about.is_bound or right.about.is_bound) return false;
        if (left.about.limits.starts_inside and right.about.limits.ends_inside and
            self.seams.joinsParts(left.bytes, right.bytes)) return false;
        if (left.about.limits.behind and
            self.seams.joinsBehind(left.code_point, right.bytes)) return false;
        if (right.about.limits.before and
            self.seams.joinsBefore(left.bytes, right.code_point)) return false;
        return true;
    }
};

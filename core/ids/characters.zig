//! Characters → their ids and where they can be cut from each other: what units.zig works with.
//!
//! Made when a text with such characters is first met, and shared by all threads from then on.

const std = @import("std");
const Allocator = std.mem.Allocator;
const ids = @import("../ids.zig");
const pages = @import("../pages.zig");
const unicode = @import("../unicode.zig");
const seams_ = @import("../vocabulary/seams.zig");
const PairTable = @import("../vocabulary/pair_table.zig").PairTable;

/// What is known about a character: zero while it is nothing.
pub const About = packed struct(u8) {
    /// How many ids it has.
    count: u2 = 0,
    limits: seams_.Limits = .{},
    /// The seams know nothing about two ASCII characters.
    is_ascii: bool = false,
    /// Never to be cut from its neighbours.
    is_bound: bool = false,

    pub const count_mask: u8 = 3;
    /// What makes a cut behind it or before it a matter of doubt, and what does if the character
    /// before has the one and the character behind the other.
    pub const doubt_behind: About = .{ .limits = .{ .behind = true } };
    pub const doubt_before: About = .{ .limits = .{ .before = true } };
    pub const doubt_last: About = .{ .limits = .{ .starts_inside = true } };
    pub const doubt_first: About = .{ .limits = .{ .ends_inside = true } };
};

/// Up to three ids, stored as they go out.
const Ids = [4]u32;

pub const Entry = packed struct(u32) { about: About = .{}, first_id: u24 = 0 };

comptime {
    std.debug.assert(PairTable.id_limit <= std.math.maxInt(u24));
}

pub const Char = struct { code_point: u32, bytes: []const u8, about: About };

pub const Characters = struct {
    seams: seams_.Seams,
    /// By code point. Whoever writes an entry writes the same, and those in `entries` come last.
    ids: *align(pages.page_size) [len]Ids,
    /// What decides, and the first id, for most characters the only one: a quarter of `ids`.
    entries: *align(pages.page_size) [len]Entry,

    /// Characters up to here have an entry; others are never cut from their neighbours.
    const len = 0x10000;

    pub fn create(gpa: Allocator, tokenizer: *const ids.Tokenizer) Allocator.Error!*Characters {
        const self = try gpa.create(Characters);
        errdefer gpa.destroy(self);
        const vocabulary = &tokenizer.vocabulary;
        self.seams = try .init(gpa, vocabulary, vocabulary.ids_end, tokenizer.seed);
        errdefer self.seams.deinit(gpa);
        const values = try pages.map(Ids, len);
        errdefer pages.unmap(values);
        const entries = try pages.map(Entry, len);
        self.ids = values[0..len];
        self.entries = entries[0..len];
        return self;
    }

    pub fn destroy(self: *Characters, gpa: Allocator) void {
        self.seams.deinit(gpa);
        pages.unmap(@as([]align(pages.page_size) Ids, self.ids));
        pages.unmap(@as([]align(pages.page_size) Entry, self.entries));
        gpa.destroy(self);
    }

    /// The character at the beginning of `text`.
    pub fn charAt(self: *const Characters, encoder: *ids.Encoder, text: []const u8) ids.Error!Char {
        const char = unicode.decode(text, 0);
        const bytes = text[0..char.len];
        // Bytes that are not UTF-8 read as the replacement character, which has three itself.
        const has_entry = char.code_point < len and
            (char.code_point != unicode.replacement or char.len == 3);
        const about = if (has_entry)
            try self.aboutOf(encoder, char.code_point, bytes)
        else
            About{ .is_bound = true };
        return .{ .code_point = char.code_point, .bytes = bytes, .about = about };
    }

    /// What is known about a character, which is found out if it is nothing.
    pub fn aboutOf(
        self: *const Characters,
        encoder: *ids.Encoder,
        code_point: u32,
        bytes: []const u8,
    ) ids.Error!About {
        const known = @atomicLoad(Entry, &self.entries[code_point], .acquire).about;
        if (known.count != 0) return known;
        // A character has at most three bytes here and so at most three ids.
        const found = try encoder.mergedIds(bytes);
        const about: About = .{
            .count = @intCast(found.len),
            .limits = self.seams.limitsOf(@intCast(code_point), bytes),
            .is_ascii = code_point < 0x80,
            // Seams take this character for bytes that are not UTF-8.
            .is_bound = code_point == unicode.replacement,
        };
        for (self.ids[code_point][0..found.len], found) |*place, id| {
            @atomicStore(u32, place, id, .monotonic);
        }
        const entry: Entry = .{ .about = about, .first_id = @intCast(found[0]) };
        @atomicStore(Entry, &self.entries[code_point], entry, .release);
        return about;
    }

    /// Whether no token covers the seam between two characters whose pair no token holds whole.
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

//! Text and SentencePiece's compiled map → text with every rule applied.
//!
//! The map is a double-array trie (darts-clone, 32-bit cells) over the bytes to be replaced. A leaf
//! contains the offset of its replacement in the strings after the trie; a replacement ends at a
//! NUL. At each offset the longest rule applies, as in SentencePiece. A character without a rule
//! stays. Deleted characters belong to the span of the character before them.
//!
//! Hugging Face's library behaves differently. For a grapheme cluster of less than 6 bytes, the
//! shortest rule that it begins with applies and replaces the whole cluster. In other clusters the
//! same holds for each character. After a deletion at the start of a text its alignment is wrong,
//! and it is wrong here in the same way.
//!
//! The bytes are untrusted: every index is checked before use, and every trie traversal terminates.

const std = @import("std");
const graphemes = @import("graphemes.zig");
const unicode = @import("../unicode.zig");
const Output = @import("output.zig").Output;

const Allocator = std.mem.Allocator;

/// Longer rules are not found.
const rule_len_max = 64;
const map_bytes_max = 16 << 20;
/// Longer grapheme clusters are processed character by character.
const cluster_len_end = 6;

pub const Charsmap = struct {
    units: []u32,
    strings: []u8,
    /// Whether a rule may begin with this ASCII character, and end there or continue with ASCII.
    begins_ascii: [128]bool,
    by_grapheme: bool,

    const Rule = struct { len: usize, content: []const u8 };

    pub fn init(
        gpa: Allocator,
        bytes: []const u8,
        by_grapheme: bool,
    ) error{ OutOfMemory, InvalidSteps }!Charsmap {
        @setRuntimeSafety(true);
        if (bytes.len < 4 or bytes.len > map_bytes_max) return error.InvalidSteps;
        const units_bytes: usize = std.mem.readInt(u32, bytes[0..4], .little);
        const rest = bytes[4..];
        if (units_bytes > rest.len or units_bytes % 4 != 0 or units_bytes == 0) {
            return error.InvalidSteps;
        }
        const strings = rest[units_bytes..];
        // Every string ends inside the array.
        const is_ended = strings.len == 0 or strings[strings.len - 1] == 0;
        if (!is_ended or !std.unicode.utf8ValidateSlice(strings)) return error.InvalidSteps;
        const units = try gpa.alloc(u32, units_bytes / 4);
        errdefer gpa.free(units);
        for (units, 0..) |*unit, index| {
            unit.* = std.mem.readInt(u32, rest[index * 4 ..][0..4], .little);
        }
        var map: Charsmap = .{
            .units = units,
            .strings = try gpa.dupe(u8, strings),
            .begins_ascii = undefined,
            .by_grapheme = by_grapheme,
        };
        for (&map.begins_ascii, 0..) |*begins, byte| begins.* = map.beginsAscii(@intCast(byte));
        return map;
    }

    pub fn deinit(self: *Charsmap, gpa: Allocator) void {
        gpa.free(self.units);
        gpa.free(self.strings);
        self.* = undefined;
    }

    fn beginsAscii(self: *const Charsmap, first: u8) bool {
        @setRuntimeSafety(true);
        var walk: Walk = .init(self);
        if (!walk.step(first)) return false;
        if (walk.leaf() != null) return true;
        for (0..128) |second| {
            var on = walk;
            if (on.step(@intCast(second))) return true;
        }
        return false;
    }

    /// Returns the longest rule that `text` begins with.
    fn longest(self: *const Charsmap, text: []const u8) ?Rule {
        var walk: Walk = .init(self);
        var found: ?Rule = null;
        for (text[0..@min(text.len, rule_len_max)], 1..) |byte, len| {
            if (!walk.step(byte)) break;
            const content = self.stringAt(walk.leaf() orelse continue) orelse continue;
            found = .{ .len = len, .content = content };
        }
        return found;
    }

    fn stringAt(self: *const Charsmap, start: usize) ?[]const u8 {
        if (start >= self.strings.len or self.strings[start] & 0xC0 == 0x80) return null;
        return std.mem.sliceTo(self.strings[start..], 0);
    }

    /// Returns the first offset from `from` where a rule changes the text, and the rule.
    fn next(self: *const Charsmap, text: []const u8, from: usize) ?struct { usize, Rule } {
        var index = from;
        while (index < text.len) {
            const byte = text[index];
            // Fast path: most text is ASCII, and most rules concern multi-byte characters.
            const is_last = index + 1 == text.len or text[index + 1] < 0x80;
            if (byte < 0x80 and is_last and !self.begins_ascii[byte]) {
                index += 1;
                continue;
            }
            const rule = self.longest(text[index..]) orelse {
                index += unicode.decode(text, index).len;
                continue;
            };
            const old = text[index..][0..rule.len];
            if (!std.mem.eql(u8, old, rule.content)) return .{ index, rule };
            index += rule.len;
        }
        return null;
    }

    /// Writes the text with the rules applied, and returns whether it differs.
    pub fn write(self: *const Charsmap, output: *Output) error{OutOfMemory}!bool {
        if (self.by_grapheme) return self.writeByGrapheme(output);
        const text = output.old;
        var index, var rule = self.next(text, 0) orelse return false;
        while (true) {
            const end = index + rule.len;
            if (rule.content.len > 0) {
                try output.keep(index);
                try output.replace(index, end, end, rule.content);
            } else {
                try output.drop(index, end);
            }
            index, rule = self.next(text, end) orelse break;
        }
        try output.keep(text.len);
        return true;
    }

    /// Returns the replacement of the shortest rule that `text` begins with.
    fn shortest(self: *const Charsmap, text: []const u8) ?[]const u8 {
        var walk: Walk = .init(self);
        for (text) |byte| {
            if (!walk.step(byte)) return null;
            if (walk.leaf()) |start| return self.stringAt(start);
        }
        return null;
    }

    /// A stretch of text that is replaced or kept as a whole: a short cluster that begins with a
    /// rule, or a character.
    const Unit = struct { end: usize, content: ?[]const u8 };

    /// Returns the stretch at `start` in a cluster that ends at `end.*`. If `start` is there, the
    /// next cluster begins.
    fn unitAt(self: *const Charsmap, text: []const u8, start: usize, end: *usize) Unit {
        if (start == end.*) {
            end.* = graphemes.end(text, start);
            const cluster = text[start..end.*];
            if (cluster.len < cluster_len_end) {
                if (self.shortest(cluster)) |content| return .{ .end = end.*, .content = content };
            }
        }
        const char_end = start + unicode.decode(text, start).len;
        return .{ .end = char_end, .content = self.shortest(text[start..char_end]) };
    }

    fn writeByGrapheme(self: *const Charsmap, output: *Output) error{OutOfMemory}!bool {
        const text = output.old;
        var pending: Pending = .{ .output = output };
        var changed = false;
        var index: usize = 0;
        var cluster_end: usize = 0;
        while (index < text.len) {
            const start = index;
            const unit = self.unitAt(text, start, &cluster_end);
            index = unit.end;
            if (unit.content) |content| {
                if (!changed and start > 0) {
                    // The last character may still absorb deleted ones.
                    const last = start - unicode.decodeBefore(text, start).len;
                    try output.keep(last);
                    try pending.put(text[last..start], 0);
                }
                changed = true;
                try pending.replace(text[start..index], content);
            } else if (changed) {
                try pending.put(text[start..index], 0);
            }
        }
        try pending.flush();
        return changed;
    }
};

/// The output with one character delayed, because its alignment may still change.
const Pending = struct {
    output: *Output,
    bytes: []const u8 = &.{},
    change: i32 = 0,

    fn flush(self: *Pending) error{OutOfMemory}!void {
        if (self.bytes.len > 0) try self.output.put(self.bytes, self.change);
    }

    fn put(self: *Pending, bytes: []const u8, change: i32) error{OutOfMemory}!void {
        try self.flush();
        self.bytes = bytes;
        self.change = change;
    }

    /// Writes `content` for `old`. If it has more characters, the last ones are insertions. If it
    /// has fewer, the last one, or else the character before, absorbs the removed ones.
    fn replace(self: *Pending, old: []const u8, content: []const u8) error{OutOfMemory}!void {
        var old_left = countChars(old);
        var index: usize = 0;
        while (index < content.len) : (old_left -= 1) {
            const len = unicode.decode(content, index).len;
            try self.put(content[index..][0..len], if (old_left > 0) 0 else 1);
            index += len;
        }
        if (old_left > 0 and self.bytes.len > 0) self.change -= old_left;
    }
};

fn countChars(text: []const u8) i32 {
    var count: i32 = 0;
    var index: usize = 0;
    while (index < text.len) : (count += 1) index += unicode.decode(text, index).len;
    return count;
}

/// A traversal of the double-array trie.
const Walk = struct {
    units: []const u32,
    at: usize,
    unit: u32,

    fn init(map: *const Charsmap) Walk {
        return .{ .units = map.units, .at = offsetOf(map.units[0]), .unit = 0 };
    }

    /// Advances by a byte. Returns false if the trie has no such edge.
    fn step(self: *Walk, byte: u8) bool {
        const to = self.at ^ byte;
        if (byte == 0 or to >= self.units.len) return false;
        const unit = self.units[to];
        if (unit & (1 << 31 | 0xFF) != byte) return false;
        self.unit = unit;
        self.at = to ^ offsetOf(unit);
        return true;
    }

    /// Returns the value of the rule that ends here.
    fn leaf(self: *const Walk) ?usize {
        if (self.unit >> 8 & 1 == 0 or self.at >= self.units.len) return null;
        return self.units[self.at] & (1 << 31) - 1;
    }

    fn offsetOf(unit: u32) usize {
        return @as(usize, unit >> 10) << @intCast((unit & 1 << 9) >> 6);
    }
};

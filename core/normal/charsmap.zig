//! Text, SentencePiece's compiled map → text with every rule applied.
//!
//! The map is a double array (darts-clone: 32-bit units) over the bytes of what is to be replaced;
//! a leaf holds where in the strings behind it the replacement begins, which ends at a NUL. At each
//! place the longest rule counts, as in SentencePiece; a character that begins none stays. What a
//! rule deletes belongs to the place of the character before it.
//!
//! Hugging Face has a way of its own: of a grapheme cluster of less than 6 bytes the shortest rule
//! that it begins with counts, and replaces all of it; in any other cluster that is so for each
//! character. What is deleted at the start of a text makes its places wrong from there on, and they
//! are wrong here in the same way.
//!
//! The bytes are untrusted: every index is checked where it is used, and a walk has an end.

const std = @import("std");
const graphemes = @import("graphemes.zig");
const unicode = @import("../unicode.zig");
const Output = @import("output.zig").Output;

const Allocator = std.mem.Allocator;

/// Rules that are longer than this are not found.
const rule_len_max = 64;
const map_bytes_max = 16 << 20;
/// Grapheme clusters from this length on are taken apart.
const cluster_len_end = 6;

pub const Charsmap = struct {
    units: []u32,
    strings: []u8,
    /// Whether a rule may begin with this ASCII character and go on with ASCII, or end there.
    begins_ascii: [128]bool,
    by_grapheme: bool,

    const Rule = struct { len: usize, content: []const u8 };

    pub fn init(
        gpa: Allocator,
        bytes: []const u8,
        by_grapheme: bool,
    ) error{ OutOfMemory, InvalidSteps }!Charsmap {
        if (bytes.len < 4 or bytes.len > map_bytes_max) return error.InvalidSteps;
        const units_bytes: usize = std.mem.readInt(u32, bytes[0..4], .little);
        const rest = bytes[4..];
        if (units_bytes > rest.len or units_bytes % 4 != 0 or units_bytes == 0) {
            return error.InvalidSteps;
        }
        const strings = rest[units_bytes..];
        // A string always ends inside.
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
        var walk: Walk = .init(self);
        if (!walk.step(first)) return false;
        if (walk.leaf() != null) return true;
        for (0..128) |second| {
            var on = walk;
            if (on.step(@intCast(second))) return true;
        }
        return false;
    }

    /// The longest rule that `text` begins with.
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

    /// The first place from `from` on where a rule changes something, with that rule.
    fn next(self: *const Charsmap, text: []const u8, from: usize) ?struct { usize, Rule } {
        var index = from;
        while (index < text.len) {
            const byte = text[index];
            // Most text is ASCII, and rules for it are about what follows.
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

    /// Writes the text with the rules applied, and says whether that changed anything.
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

    /// What the shortest rule that `text` begins with makes of it.
    fn shortest(self: *const Charsmap, text: []const u8) ?[]const u8 {
        var walk: Walk = .init(self);
        for (text) |byte| {
            if (!walk.step(byte)) return null;
            if (walk.leaf()) |start| return self.stringAt(start);
        }
        return null;
    }

    /// A part of the text that is replaced or kept as a whole: a short cluster that begins with a
    /// rule, or a character.
    const Unit = struct { end: usize, content: ?[]const u8 };

    /// The part from `start` on, of a cluster that ends at `end.*`; there the next one begins.
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
                    // The last of them may yet be said to stand for more.
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

/// Characters on their way to the output, of which the last may still be changed.
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

    /// Writes `content` for `old`. Where there are more characters, the last ones are new; where
    /// there are fewer, the last one stands for those that are gone, or what is before does.
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

/// A way through the double array.
const Walk = struct {
    units: []const u32,
    at: usize,
    unit: u32,

    fn init(map: *const Charsmap) Walk {
        return .{ .units = map.units, .at = offsetOf(map.units[0]), .unit = 0 };
    }

    /// Goes on with a byte; false: there is no such way.
    fn step(self: *Walk, byte: u8) bool {
        const to = self.at ^ byte;
        if (byte == 0 or to >= self.units.len) return false;
        const unit = self.units[to];
        if (unit & (1 << 31 | 0xFF) != byte) return false;
        self.unit = unit;
        self.at = to ^ offsetOf(unit);
        return true;
    }

    /// The value of the rule that ends here.
    fn leaf(self: *const Walk) ?usize {
        if (self.unit >> 8 & 1 == 0 or self.at >= self.units.len) return null;
        return self.units[self.at] & (1 << 31) - 1;
    }

    fn offsetOf(unit: u32) usize {
        return @as(usize, unit >> 10) << @intCast((unit & 1 << 9) >> 6);
    }
};

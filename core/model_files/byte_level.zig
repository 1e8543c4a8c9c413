//! Token texts → their bytes, for vocabularies that display each byte as a character.
//!
//! GPT-2's table: a byte that is visible in Latin-1 is that character, and the 68 others are U+0100
//! and following, in order. A text with any other character does not represent bytes of a document.

const std = @import("std");
const Allocator = std.mem.Allocator;
const Failure = @import("../failure.zig").Failure;

pub const Kind = enum(u8) { token = 0, decoded = 2 };

const characters_end = 0x144;
/// The byte that a character represents.
const bytes_of: [characters_end]?u8 = made: {
    var table: [characters_end]?u8 = @splat(null);
    var hidden = 0x100;
    for (0..256) |byte| {
        const is_visible = switch (byte) {
            0x21...0x7e, 0xa1...0xac, 0xae...0xff => true,
            else => false,
        };
        table[if (is_visible) byte else hidden] = byte;
        if (!is_visible) hidden += 1;
    }
    std.debug.assert(hidden == characters_end);
    break :made table;
};

pub const Spelled = struct {
    bytes: []u8,
    lengths: []u32,
    /// `decoded`: the token text is not an encoding of bytes, and is used literally.
    kinds: []u8,
};

/// Returns the reason if the lengths are not those of the token texts.
pub fn failureOf(names: []const u8, lengths: []const u32) ?Failure {
    var sum: u64 = 0;
    for (lengths) |length| sum += length;
    if (sum == names.len) return null;
    return .init(.value, "lengths must add up to the length of names", .{});
}

/// Returns the bytes of token texts, which must be UTF-8 and are concatenated. `failureOf` must
/// return null.
pub fn read(gpa: Allocator, names: []const u8, lengths: []const u32) Allocator.Error!Spelled {
    @setRuntimeSafety(true);
    // Every character has at least one byte.
    const bytes = try gpa.alloc(u8, names.len);
    errdefer gpa.free(bytes);
    const new_lengths = try gpa.alloc(u32, lengths.len);
    errdefer gpa.free(new_lengths);
    const kinds = try gpa.alloc(u8, lengths.len);
    errdefer gpa.free(kinds);
    var start: usize = 0;
    var end: usize = 0;
    for (lengths, new_lengths, kinds) |length, *new_length, *kind| {
        const name = names[start..][0..length];
        start += length;
        const len = readName(name, bytes[end..]) orelse 0;
        kind.* = @intFromEnum(if (len > 0) Kind.token else Kind.decoded);
        if (len == 0) @memcpy(bytes[end..][0..length], name);
        new_length.* = if (len > 0) len else length;
        end += new_length.*;
    }
    return .{ .bytes = try gpa.realloc(bytes, end), .lengths = new_lengths, .kinds = kinds };
}

fn readName(name: []const u8, out: []u8) ?u32 {
    @setRuntimeSafety(true);
    var at: usize = 0;
    var len: u32 = 0;
    while (at < name.len) : (len += 1) {
        var character: u32 = name[at];
        at += 1;
        if (character >= 0x80) {
            // Characters of the table have at most two bytes.
            if (character & 0xe0 != 0xc0 or at == name.len) return null;
            character = (character & 0x1f) << 6 | (name[at] & 0x3f);
            at += 1;
        }
        if (character >= characters_end) return null;
        out[len] = bytes_of[character] orelse return null;
    }
    return len;
}

test "spelling: every byte has a character" {
    const gpa = std.testing.allocator;
    var names: std.ArrayList(u8) = .empty;
    defer names.deinit(gpa);
    var expected: std.ArrayList(u8) = .empty;
    defer expected.deinit(gpa);
    for (bytes_of, 0..) |byte, character| {
        var utf8: [4]u8 = undefined;
        const len = try std.unicode.utf8Encode(@intCast(character), &utf8);
        if (byte == null) continue;
        try names.appendSlice(gpa, utf8[0..len]);
        try expected.append(gpa, byte.?);
    }
    try std.testing.expectEqual(256, expected.items.len);
    const found = try read(gpa, names.items, &.{@intCast(names.items.len)});
    defer gpa.free(found.bytes);
    defer gpa.free(found.lengths);
    defer gpa.free(found.kinds);
    try std.testing.expectEqualSlices(u8, expected.items, found.bytes);
    std.mem.sort(u8, found.bytes, {}, std.sort.asc(u8));
    for (found.bytes, 0..) |byte, index| try std.testing.expectEqual(index, byte);
}

test "spelling: token texts with other characters stay unchanged" {
    const gpa = std.testing.allocator;
    const names = "Ġa" ++ "<｜x▁｜>" ++ "" ++ "a b" ++ "ł" ++ "ń";
    const found = try read(gpa, names, &.{ 3, 12, 0, 3, 2, 2 });
    defer gpa.free(found.bytes);
    defer gpa.free(found.lengths);
    defer gpa.free(found.kinds);
    const bytes = " a" ++ "<｜x▁｜>" ++ "a b" ++ "\xa0" ++ "ń";
    try std.testing.expectEqualSlices(u8, bytes, found.bytes);
    try std.testing.expectEqualSlices(u32, &.{ 2, 12, 0, 3, 1, 2 }, found.lengths);
    try std.testing.expectEqualSlices(u8, &.{ 0, 2, 2, 2, 0, 2 }, found.kinds);
}

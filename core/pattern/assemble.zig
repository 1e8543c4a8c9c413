//! Listing → serialized program, for the tests of the regex engine.
//!
//! Every ASCII character is a class of its own, and all others are one class. The first instruction
//! is the only entry, for any character. The pattern compiler is written in Python.

const std = @import("std");
const program = @import("program.zig");

const ascii_count = 128;
const words = (ascii_count + 1) / 64 + 1;

pub const Set = struct {
    chars: []const u8 = "",
    /// All non-ASCII characters.
    rest: bool = false,
    /// The edge of the text.
    edge: bool = false,
};

/// Returns the program, owned by the caller.
pub fn assemble(
    gpa: std.mem.Allocator,
    sets: []const Set,
    code: []const program.Instruction.Listed,
) error{OutOfMemory}![]u8 {
    var bytes: std.ArrayList(u8) = .empty;
    errdefer bytes.deinit(gpa);
    try bytes.appendSlice(gpa, program.magic);
    const set_count: u32 = @intCast(sets.len + 1);
    const counts = [_]u32{ ascii_count + 1, ascii_count + 1, set_count, @intCast(code.len), 1 };
    for (counts) |count| try append(gpa, &bytes, u32, count);
    for (0..ascii_count + 1) |class| {
        for (0..2) |_| try append(gpa, &bytes, u32, @intCast(class));
    }
    for (sets) |set| {
        var mask = std.StaticBitSet(64 * words).initEmpty();
        for (set.chars) |char| mask.set(char);
        mask.setValue(ascii_count, set.rest);
        mask.setValue(ascii_count + 1, set.edge);
        for (mask.masks) |word| try append(gpa, &bytes, u64, word);
    }
    // The set of all classes, which is the guard of the entry.
    for (0..words) |_| try append(gpa, &bytes, u64, std.math.maxInt(u64));
    for (code) |line| {
        try append(gpa, &bytes, u16, @intFromEnum(line.op));
        try append(gpa, &bytes, u16, line.set);
        try append(gpa, &bytes, u32, line.a);
        try append(gpa, &bytes, u32, line.b);
        try append(gpa, &bytes, u16, line.guard_a);
        try append(gpa, &bytes, u16, line.guard_b);
    }
    try append(gpa, &bytes, u32, 0);
    try append(gpa, &bytes, u32, set_count - 1);
    return bytes.toOwnedSlice(gpa);
}

fn append(
    gpa: std.mem.Allocator,
    bytes: *std.ArrayList(u8),
    comptime T: type,
    value: T,
) error{OutOfMemory}!void {
    var buffer: [@sizeOf(T)]u8 = undefined;
    std.mem.writeInt(T, &buffer, value, .little);
    try bytes.appendSlice(gpa, &buffer);
}

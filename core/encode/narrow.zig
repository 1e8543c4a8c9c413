//! Ids of 32 bits → ids of 16 bits, if all fit.

const std = @import("std");
const Allocator = std.mem.Allocator;
const Failure = @import("../failure.zig").Failure;

/// Returns the reason if an id is too large for 16 bits. `ids_end` is one past the largest id of a
/// tokenizer, and `more` are ids that a caller adds.
pub fn failureOf(ids_end: u64, more: []const []const u32) ?Failure {
    var end = ids_end;
    for (more) |numbers| {
        for (numbers) |number| end = @max(end, @as(u64, number) + 1);
    }
    if (end <= 1 << 16) return null;
    return .init(.value, "id {d} does not fit into 16 bits", .{end - 1});
}

/// Converts ids to half their size, in place, and takes ownership of them: a second list of the
/// same length would cost more than half of the encoding. Each id is read before its memory is
/// overwritten.
pub fn narrowed(gpa: Allocator, numbers: []u32) Allocator.Error![]u16 {
    const halves: [*]u16 = @ptrCast(numbers.ptr);
    const lanes = 16;
    var index: usize = 0;
    // Vectorized by hand, since the compiler cannot vectorize aliased memory.
    while (index + lanes <= numbers.len) : (index += lanes) {
        const some: @Vector(lanes, u32) = numbers[index..][0..lanes].*;
        halves[index..][0..lanes].* = @as(@Vector(lanes, u16), @truncate(some));
    }
    while (index < numbers.len) : (index += 1) halves[index] = @truncate(numbers[index]);
    const kept = (numbers.len + 1) / 2;
    errdefer gpa.free(numbers);
    const rest = try gpa.realloc(numbers, kept);
    return @as([*]u16, @ptrCast(rest.ptr))[0..numbers.len];
}

test "narrow: ids keep their values, and too large ones are named" {
    const gpa = std.testing.allocator;
    for (0..40) |len| {
        const numbers = try gpa.alloc(u32, len);
        for (numbers, 0..) |*number, index| number.* = @intCast(65_535 - index * index);
        const halves = try narrowed(gpa, numbers);
        for (halves, 0..) |half, index| try std.testing.expectEqual(65_535 - index * index, half);
        const words: [*]u32 = @ptrCast(@alignCast(halves.ptr));
        gpa.free(words[0 .. (len + 1) / 2]);
    }
    try std.testing.expectEqual(null, failureOf(65_536, &.{&.{65_535}}));
    const failure = failureOf(300, &.{ &.{}, &.{ 1, 65_536 } }).?;
    try std.testing.expectEqualStrings("id 65536 does not fit into 16 bits", failure.text());
}

//! The ids of several batches → one ragged array.

const std = @import("std");
const Allocator = std.mem.Allocator;
const Failure = @import("../failure.zig").Failure;

/// The ids of texts in one array.
pub const Ragged = struct {
    ids: []u32,
    /// The ids of text i are `ids[offsets[i]..offsets[i + 1]]`.
    offsets: []i64,
};

pub const Error = error{ OutOfMemory, InvalidOffsets };

/// Returns the reason for arrays that cannot be joined.
pub fn failureOf(failure: Error) Failure {
    return switch (failure) {
        error.OutOfMemory => .out_of_memory,
        error.InvalidOffsets => .init(
            .value,
            "join expects offsets for each array of ids, at least one number",
            .{},
        ),
    };
}

/// Returns all ids in one array, owned by the caller.
pub fn join(
    gpa: Allocator,
    ids: []const []const u32,
    offsets: []const []const i64,
) Error!Ragged {
    if (ids.len != offsets.len) return error.InvalidOffsets;
    var ids_len: usize = 0;
    var texts: usize = 0;
    for (ids, offsets) |numbers, some| {
        if (some.len == 0) return error.InvalidOffsets;
        ids_len += numbers.len;
        texts += some.len - 1;
    }
    const all_ids = try gpa.alloc(u32, ids_len);
    errdefer gpa.free(all_ids);
    const all_offsets = try gpa.alloc(i64, texts + 1);
    all_offsets[0] = 0;
    var text: usize = 0;
    var start: usize = 0;
    for (ids, offsets) |numbers, some| {
        @memcpy(all_ids[start..][0..numbers.len], numbers);
        for (some[1..]) |offset| {
            text += 1;
            all_offsets[text] = @as(i64, @intCast(start)) +% offset;
        }
        start += numbers.len;
    }
    return .{ .ids = all_ids, .offsets = all_offsets };
}

test "ragged: the offsets of a later batch begin after the ids of the earlier ones" {
    const gpa = std.testing.allocator;
    const ids = [_][]const u32{ &.{ 5, 6, 7 }, &.{}, &.{8} };
    const joined = try join(gpa, &ids, &.{ &.{ 0, 2, 3 }, &.{0}, &.{ 0, 0, 1 } });
    defer gpa.free(joined.ids);
    defer gpa.free(joined.offsets);
    try std.testing.expectEqualSlices(u32, &.{ 5, 6, 7, 8 }, joined.ids);
    try std.testing.expectEqualSlices(i64, &.{ 0, 2, 3, 3, 4 }, joined.offsets);
    try std.testing.expectError(error.InvalidOffsets, join(gpa, &ids, &.{&.{0}}));
    try std.testing.expectError(error.InvalidOffsets, join(gpa, &.{&.{}}, &.{&.{}}));
}

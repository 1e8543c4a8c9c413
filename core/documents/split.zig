//! Bytes and a separator → the documents between separators.
//!
//! Separators are found from left to right and do not overlap, as in `bytes.split`.

const std = @import("std");
const platform = @import("../platform.zig");
const examples = @import("../examples.zig").examples;
const Allocator = std.mem.Allocator;
const Span = @import("span.zig").Span;

/// Appends the documents that end with a separator, and the rest if `is_last` and it is not empty.
/// An empty separator never matches. Returns the number of bytes used.
pub fn split(
    gpa: Allocator,
    data: []const u8,
    separator: []const u8,
    is_last: bool,
    spans: *std.ArrayList(Span),
) Allocator.Error!usize {
    var start: usize = 0;
    if (separator.len > 0) while (find(data, start, separator)) |end| {
        try spans.append(gpa, .of(start, end));
        start = end + separator.len;
    };
    if (!is_last or start == data.len) return start;
    try spans.append(gpa, .of(start, data.len));
    return data.len;
}

const lanes = 32;
const Bytes = @Vector(lanes, u8);

/// Returns the first position of the separator, which must not be empty, from `start`. Its first
/// and last byte are compared at many positions at once. `std.mem.indexOfPos` compares short
/// needles byte by byte, which took longer than encoding.
fn find(data: []const u8, start: usize, separator: []const u8) ?usize {
    if (data.len - start < separator.len) return null;
    const last = separator.len - 1;
    const places = data.len - last;
    const first_byte: Bytes = @splat(separator[0]);
    const last_byte: Bytes = @splat(separator[last]);
    var at = start;
    while (at + lanes <= places) : (at += lanes) {
        const firsts: Bytes = data[at..][0..lanes].*;
        const lasts: Bytes = data[at + last ..][0..lanes].*;
        var found = platform.vector.bits((firsts == first_byte) & (lasts == last_byte));
        while (found != 0) : (found &= found - 1) {
            const place = at + @ctz(found);
            if (separator.len <= 2 or isAt(data, place, separator)) return place;
        }
    }
    while (at < places) : (at += 1) if (isAt(data, at, separator)) return at;
    return null;
}

fn isAt(data: []const u8, place: usize, separator: []const u8) bool {
    return std.mem.eql(u8, data[place..][0..separator.len], separator);
}

test "split: documents equal those of a byte-by-byte search" {
    const gpa = std.testing.allocator;
    var random: std.Random.DefaultPrng = .init(std.testing.random_seed);
    var data: [200]u8 = undefined;
    var spans: std.ArrayList(Span) = .empty;
    defer spans.deinit(gpa);
    const separators = [_][]const u8{ "a", "aa", "ab", "aba", "aab", "abab", "b" ** 40 };
    for (0..examples(3000)) |_| {
        const some = data[0..random.random().uintAtMost(usize, data.len)];
        for (some) |*byte| byte.* = "ab"[random.random().uintLessThan(usize, 2)];
        for (separators) |separator| {
            for ([_]bool{ false, true }) |is_last| {
                spans.clearRetainingCapacity();
                const used = try split(gpa, some, separator, is_last, &spans);
                var start: usize = 0;
                var index: usize = 0;
                while (std.mem.indexOfPos(u8, some, start, separator)) |end| : (index += 1) {
                    try std.testing.expectEqual(Span.of(start, end), spans.items[index]);
                    start = end + separator.len;
                }
                if (is_last and start < some.len) {
                    try std.testing.expectEqual(Span.of(start, some.len), spans.items[index]);
                    start = some.len;
                    index += 1;
                }
                try std.testing.expectEqual(index, spans.items.len);
                try std.testing.expectEqual(start, used);
            }
        }
    }
}

test "split: an empty separator never matches" {
    const gpa = std.testing.allocator;
    var spans: std.ArrayList(Span) = .empty;
    defer spans.deinit(gpa);
    try std.testing.expectEqual(0, try split(gpa, "abc", "", false, &spans));
    try std.testing.expectEqual(3, try split(gpa, "abc", "", true, &spans));
    try std.testing.expectEqualSlices(Span, &.{.of(0, 3)}, spans.items);
}

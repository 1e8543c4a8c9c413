//! Bytes, a separator → the documents between.
//!
//! Separators are found from left to right and do not overlap, as `bytes.split` finds them.

const std = @import("std");
const Allocator = std.mem.Allocator;
const Span = @import("span.zig").Span;

/// Adds the documents that separators end, and the last one if nothing comes behind it; an empty
/// separator ends none. Returns how many bytes they take.
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

/// The first place from `start` on where the separator, which is not empty, stands. Its first and
/// its last byte are looked for in many places at once: `std.mem.indexOfPos` goes byte by byte
/// for short ones, which took longer than encoding.
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
        var found: u32 = @bitCast((firsts == first_byte) & (lasts == last_byte));
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

test "split: documents are those that a search byte by byte finds" {
    const gpa = std.testing.allocator;
    var random: std.Random.DefaultPrng = .init(std.testing.random_seed);
    var data: [200]u8 = undefined;
    var spans: std.ArrayList(Span) = .empty;
    defer spans.deinit(gpa);
    const separators = [_][]const u8{ "a", "aa", "ab", "aba", "aab", "abab", "b" ** 40 };
    for (0..3000) |_| {
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

test "split: an empty separator ends nothing" {
    const gpa = std.testing.allocator;
    var spans: std.ArrayList(Span) = .empty;
    defer spans.deinit(gpa);
    try std.testing.expectEqual(0, try split(gpa, "abc", "", false, &spans));
    try std.testing.expectEqual(3, try split(gpa, "abc", "", true, &spans));
    try std.testing.expectEqualSlices(Span, &.{.of(0, 3)}, spans.items);
}

//! Pretoken → ids, the reference implementation: no pair table and no windows, only the definition.

const std = @import("std");
const Vocabulary = @import("../vocabulary.zig").Vocabulary;

/// Appends the ids of `piece`. Repeatedly merges the two neighbours whose concatenation is the
/// token with the lowest id, the leftmost on a tie.
pub fn merge(
    gpa: std.mem.Allocator,
    vocabulary: *const Vocabulary,
    piece: []const u8,
    out: *std.ArrayList(u32),
) !void {
    var ends: std.ArrayList(usize) = .empty;
    defer ends.deinit(gpa);
    for (1..piece.len + 1) |end| try ends.append(gpa, end);
    while (true) {
        var lowest: ?u32 = null;
        var at: usize = 0;
        var start: usize = 0;
        for (0..ends.items.len -| 1) |i| {
            const joined = vocabulary.find(piece[start..ends.items[i + 1]]);
            if (joined != null and (lowest == null or joined.? < lowest.?)) {
                lowest = joined;
                at = i;
            }
            start = ends.items[i];
        }
        if (lowest == null) break;
        _ = ends.orderedRemove(at);
    }
    var start: usize = 0;
    for (ends.items) |end| {
        const part = piece[start..end];
        const is_byte = part.len == 1;
        try out.append(gpa, if (is_byte) vocabulary.byte_ids[part[0]] else vocabulary.find(part).?);
        start = end;
    }
}

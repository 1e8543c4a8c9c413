//! Documents → which of them are not UTF-8, as Python's strict decoder sees it.

const std = @import("std");
const Allocator = std.mem.Allocator;

/// The numbers of the documents that are not UTF-8, from 0.
pub fn problems(gpa: Allocator, documents: []const []const u8) Allocator.Error![]i64 {
    var found: std.ArrayList(i64) = .empty;
    errdefer found.deinit(gpa);
    for (documents, 0..) |document, index| {
        if (!isValid(document)) try found.append(gpa, @intCast(index));
    }
    return found.toOwnedSlice(gpa);
}

pub fn isValid(text: []const u8) bool {
    return std.unicode.utf8ValidateSlice(text);
}

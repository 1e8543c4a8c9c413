//! A document → the same with a prepended space, and with spaces for "▁".
//!
//! The new bytes are in memory that the next document overwrites. A document without changes is not
//! copied.

const std = @import("std");
const Allocator = std.mem.Allocator;
const normal = @import("../normalize.zig");
const Document = @import("document.zig").Document;

/// SentencePiece's character for a space.
pub const mark = "\u{2581}";

/// Memory for a document that differs from the text.
pub const Scratch = struct {
    gpa: Allocator,
    bytes: std.ArrayList(u8) = .empty,
    places: normal.Runs = .{},

    pub fn deinit(self: *Scratch) void {
        self.bytes.deinit(self.gpa);
        self.places.deinit(self.gpa);
    }

    /// Prepends a space if `is_prefixed`, and replaces marks if `folds`. Valid until the next call.
    pub fn ready(
        self: *Scratch,
        document: Document,
        is_prefixed: bool,
        folds: bool,
        keeps_places: bool,
    ) Allocator.Error!Document {
        const first_mark = if (folds) nextMark(document.bytes, 0) else null;
        if (!is_prefixed and first_mark == null) return document;
        var made = document;
        self.bytes.clearRetainingCapacity();
        self.places.list.clearRetainingCapacity();
        try self.bytes.ensureTotalCapacity(self.gpa, document.bytes.len + 1);
        if (is_prefixed) {
            self.bytes.appendAssumeCapacity(' ');
            made.leading_space_end = document.firstEnd();
        }
        if (first_mark != null) {
            try self.fold(document, keeps_places);
            made.source_map = self.places.list.items;
            made.source_map_start = 0;
        } else self.bytes.appendSliceAssumeCapacity(document.bytes);
        made.bytes = self.bytes.items;
        return made;
    }

    fn fold(self: *Scratch, document: Document, keeps_places: bool) Allocator.Error!void {
        const bytes = document.bytes;
        const from = document.source_map_start;
        const blanks = self.bytes.items.len;
        var places = document.cursor();
        var start: usize = 0;
        while (true) {
            const found = nextMark(bytes, start);
            const end = found orelse bytes.len;
            if (keeps_places) {
                const at = self.bytes.items.len - blanks;
                try self.places.copy(self.gpa, at, &places, from + start, from + end);
            }
            self.bytes.appendSliceAssumeCapacity(bytes[start..end]);
            if (found == null) return;
            start = end + mark.len;
            if (keeps_places) {
                const place = places.placeOf(from + end, from + start);
                try self.places.put(self.gpa, self.bytes.items.len - blanks, 1, place);
            }
            self.bytes.appendAssumeCapacity(' ');
        }
    }

    pub fn nextMark(bytes: []const u8, from: usize) ?usize {
        var index = from;
        while (std.mem.indexOfScalarPos(u8, bytes, index, mark[0])) |at| : (index = at + 1) {
            if (std.mem.startsWith(u8, bytes[at..], mark)) return at;
        }
        return null;
    }
};

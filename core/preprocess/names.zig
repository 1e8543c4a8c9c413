//! Texts of added tokens → the strings to search for: normalized if their flags require it, without
//! duplicates.

const std = @import("std");
const Allocator = std.mem.Allocator;
const added = @import("../added.zig");
const preprocess = @import("../preprocess.zig");
const normal = @import("../normalize.zig");
const Document = @import("document.zig").Document;
const Scratch = @import("scratch.zig").Scratch;

/// Collects the added tokens of one kind.
pub const Maker = struct {
    entries: std.ArrayList(Entry) = .empty,
    owned: std.ArrayList([]const u8) = .empty,

    pub const Entry = struct { name: []const u8, place: u32, id: u32, flags: added.Flags };

    pub fn deinit(self: *Maker, gpa: Allocator) void {
        for (self.owned.items) |name| gpa.free(name);
        self.owned.deinit(gpa);
        self.entries.deinit(gpa);
    }

    /// Returns the token text in its normalized form.
    pub fn normalise(
        self: *Maker,
        gpa: Allocator,
        name: []const u8,
        flags: added.Flags,
        steps: *const normal.Steps,
        /// Null if spaces and marks are handled later.
        prefix: ?preprocess.Prefix,
        space_marker: bool,
    ) Allocator.Error![]const u8 {
        var changed = if (flags.literal) null else try steps.apply(gpa, name, false);
        defer if (changed) |*some| some.deinit(gpa);
        var document: Document = .{ .bytes = if (changed) |some| some.bytes else name };
        var scratch: Scratch = .{ .gpa = gpa };
        defer scratch.deinit();
        if (document.bytes.len > 0 and prefix != null) {
            const prefixed = prefix == .always and !flags.literal;
            document = try scratch.ready(document, prefixed, space_marker, false);
        }
        try self.owned.ensureUnusedCapacity(gpa, 1);
        const copy = try gpa.dupe(u8, document.bytes);
        self.owned.appendAssumeCapacity(copy);
        return copy;
    }

    /// Builds the search set, without duplicates. If normalization makes several token texts equal,
    /// the lowest id wins; in Hugging Face's library the winner varies between runs.
    pub fn make(self: *Maker, gpa: Allocator) Allocator.Error!added.Added {
        std.sort.heap(Entry, self.entries.items, {}, isLess);
        var bytes: std.ArrayList(u8) = .empty;
        defer bytes.deinit(gpa);
        var lists: [3]std.ArrayList(u32) = @splat(.empty);
        defer for (&lists) |*list| list.deinit(gpa);
        var flags: std.ArrayList(added.Flags) = .empty;
        defer flags.deinit(gpa);
        var last: []const u8 = "";
        for (self.entries.items) |entry| {
            if (std.mem.eql(u8, entry.name, last)) continue;
            last = entry.name;
            try bytes.appendSlice(gpa, last);
            try lists[0].append(gpa, @intCast(last.len));
            try lists[1].append(gpa, entry.place);
            try lists[2].append(gpa, entry.id);
            try flags.append(gpa, entry.flags);
        }
        const places = lists[1].items;
        return .init(gpa, bytes.items, lists[0].items, places, lists[2].items, flags.items);
    }

    fn isLess(_: void, a: Entry, b: Entry) bool {
        return switch (std.mem.order(u8, a.name, b.name)) {
            .lt => true,
            .gt => false,
            .eq => if (a.id != b.id) a.id < b.id else a.place < b.place,
        };
    }
};

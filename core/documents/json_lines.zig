//! JSON lines → the text in one field of each line.
//!
//! A line is valid if Python's `json.loads` accepts it. That includes NaN and Infinity, and the
//! last of duplicate keys counts. The length of numbers is not limited, unlike in Python. An
//! invalid line is reported with its span and the reason, and other lines are read normally. UTF-8
//! is not checked here (see utf8.zig).
//!
//! The text is copied while its string is scanned for the end, 32 bytes at a time. scanner.zig
//! skips the rest of a line. No objects are built.
//!
//! **Invariant** the text is never longer than its lines, so its memory is allocated in advance.

const std = @import("std");
const platform = @import("../platform.zig");
const examples = @import("../examples.zig").examples;
const Allocator = std.mem.Allocator;
const Scanner = @import("scanner.zig").Scanner;
const Span = @import("span.zig").Span;

/// The reason why a line has no document. The numbers are part of the binding.
pub const Reason = enum(u8) {
    not_json = 1,
    /// JSON nested deeper than `depth_max`.
    too_deep = 2,
    not_object = 3,
    no_field = 4,
    /// The field is null.
    null_field = 5,
    /// The field is not a string.
    not_text = 6,
};

pub const Problem = struct { line: Span, line_index: usize, reason: Reason };

/// The contents of a block of lines, owned by the caller.
pub const Found = struct {
    /// The texts of all documents, concatenated, and their spans.
    text: []u8,
    spans: []Span,
    /// The line of each document, without its newline.
    lines: []Span,
    problems: []Problem,
    ids: ?Ids,
    /// Number of bytes of all lines with their newlines.
    used: usize,
    /// Including empty lines.
    line_count: usize,

    /// The id of each document: the contents of a string, the JSON text of another value, and empty
    /// for null.
    pub const Ids = struct { text: []u8, spans: []Span };

    pub fn deinit(self: *Found, gpa: Allocator) void {
        gpa.free(self.text);
        gpa.free(self.spans);
        gpa.free(self.lines);
        gpa.free(self.problems);
        if (self.ids) |ids| {
            gpa.free(ids.text);
            gpa.free(ids.spans);
        }
    }
};

/// Reads the complete lines of a block, and also an unterminated last line if the block is the
/// last. A field is a key of the line's object. If there is no such key, dots in its name lead into
/// nested objects.
pub fn read(
    gpa: Allocator,
    block: []const u8,
    is_last: bool,
    field: []const u8,
    id_field: ?[]const u8,
) Allocator.Error!Found {
    const last = std.mem.lastIndexOfScalar(u8, block, '\n');
    const used = if (is_last) block.len else if (last) |place| place + 1 else 0;
    const name_max = @max(field.len, if (id_field) |name| name.len else 0);
    const scratch = try gpa.alloc(u8, Scanner.key_room * name_max + Scanner.room_extra);
    defer gpa.free(scratch);
    var reader: Reader = .{
        .gpa = gpa,
        .scanner = .{ .data = block[0..used], .scratch = scratch },
        .fields = .{ try .init(gpa, field, used, false), null },
    };
    defer for (&reader.fields) |*some| if (some.*) |*one| one.deinit(gpa);
    if (id_field) |name| reader.fields[1] = try .init(gpa, name, used, true);
    defer reader.lines.deinit(gpa);
    defer reader.problems.deinit(gpa);
    try reader.readLines();
    return reader.result();
}

/// A field to extract.
const Field = struct {
    name: []const u8,
    has_dots: bool,
    /// Whether the JSON text of a value that is not a string is stored.
    is_id: bool,
    text: []u8,
    spans: std.ArrayList(Span) = .empty,
    /// Offset of the line's text, and its length.
    start: usize = 0,
    len: usize = 0,
    /// The value of the line's own key, and the value that the dots lead to.
    own: Value = .missing,
    led: Value = .missing,

    const Value = enum { missing, null, text, other };

    fn init(gpa: Allocator, name: []const u8, used: usize, is_id: bool) Allocator.Error!Field {
        const text = try gpa.alloc(u8, used + Scanner.room_extra);
        platform.memory.adviseHuge(text);
        const has_dots = std.mem.indexOfScalar(u8, name, '.') != null;
        return .{ .name = name, .has_dots = has_dots, .is_id = is_id, .text = text };
    }

    fn deinit(self: *Field, gpa: Allocator) void {
        gpa.free(self.text);
        self.spans.deinit(gpa);
    }

    fn value(self: *const Field) Value {
        return if (self.own != .missing) self.own else self.led;
    }

    /// Stores the value of the current line.
    fn keep(self: *Field, gpa: Allocator) Allocator.Error!void {
        const has_text = switch (self.value()) {
            .text => true,
            .other => self.is_id,
            .null, .missing => false,
        };
        const end = self.start + if (has_text) self.len else 0;
        try self.spans.append(gpa, .of(self.start, end));
        self.start = end;
    }

    /// Returns the texts of all lines, shrunk to their size.
    fn take(self: *Field, gpa: Allocator) Allocator.Error![]u8 {
        self.text = try gpa.realloc(self.text, self.start);
        defer self.text = &.{};
        return self.text;
    }
};

/// For each field, the rest of its name that a key has to match.
const Wanted = [2]?[]const u8;

const Reader = struct {
    gpa: Allocator,
    scanner: Scanner,
    fields: [2]?Field,
    lines: std.ArrayList(Span) = .empty,
    problems: std.ArrayList(Problem) = .empty,
    line_count: usize = 0,

    fn readLines(self: *Reader) Allocator.Error!void {
        const data = self.scanner.data;
        while (self.scanner.at < data.len) : (self.line_count += 1) {
            const start = self.scanner.at;
            const outcome = self.readLine();
            // A line ends at its first newline, even after an error.
            const end = if (outcome) |_|
                self.scanner.at
            else |_|
                std.mem.indexOfScalarPos(u8, data, start, '\n') orelse data.len;
            self.scanner.at = @min(end + 1, data.len);
            const reason = outcome catch |failure| switch (failure) {
                error.NotJson => if (isBlank(data[start..end])) continue else .not_json,
                error.TooDeep => .too_deep,
            };
            if (reason) |some| {
                const line: Span = .of(start, end);
                const problem: Problem =
                    .{ .line = line, .line_index = self.line_count, .reason = some };
                try self.problems.append(self.gpa, problem);
                continue;
            }
            try self.lines.append(self.gpa, .of(start, end));
            for (&self.fields) |*field| if (field.*) |*some| try some.keep(self.gpa);
        }
    }

    /// Reads a line up to its newline. Returns null if it has a text.
    fn readLine(self: *Reader) Scanner.Error!?Reason {
        var wanted: Wanted = .{ null, null };
        for (&self.fields, &wanted) |*field, *name| if (field.*) |*some| {
            some.own = .missing;
            some.led = .missing;
            name.* = some.name;
        };
        const is_object = self.scanner.peek() == '{';
        if (is_object) {
            self.scanner.at += 1;
            try self.readMembers(wanted, 1);
        } else try self.scanner.skip(0);
        try self.scanner.endLine();
        if (!is_object) return .not_object;
        return switch (self.fields[0].?.value()) {
            .text => null,
            .missing => .no_field,
            .null => .null_field,
            .other => .not_text,
        };
    }

    /// Reads the rest of an object at nesting depth `depth`, and extracts the fields in `wanted`.
    fn readMembers(self: *Reader, wanted: Wanted, depth: u32) Scanner.Error!void {
        const scanner = &self.scanner;
        if (scanner.pass('}')) return;
        while (true) {
            const key = try scanner.key();
            try self.readMember(key, wanted, depth);
            if (scanner.pass('}')) return;
            try scanner.expect(',');
        }
    }

    /// Reads a value, twice if both fields need it.
    fn readMember(self: *Reader, key: []const u8, wanted: Wanted, depth: u32) Scanner.Error!void {
        const scanner = &self.scanner;
        const start = scanner.at;
        if (start == scanner.data.len) return error.NotJson;
        var deeper: Wanted = .{ null, null };
        var is_passed = false;
        for (&self.fields, wanted, &deeper) |*field, name, *rest| {
            const some = if (field.*) |*some| some else continue;
            const parts = name orelse continue;
            const is_own = depth == 1 and std.mem.eql(u8, key, some.name);
            if (!is_own) {
                if (!some.has_dots) continue;
                if (!std.mem.startsWith(u8, parts, key)) continue;
                const is_part = key.len < parts.len and parts[key.len] == '.';
                if (!is_part and key.len < parts.len) continue;
                if (std.mem.indexOfScalar(u8, key, '.') != null) continue;
                some.led = .missing;
                if (is_part) {
                    rest.* = parts[key.len + 1 ..];
                    continue;
                }
                if (some.own != .missing) continue;
            }
            scanner.at = start;
            const found = try self.readValue(some, depth);
            if (is_own) some.own = found else some.led = found;
            is_passed = true;
        }
        const is_wanted = deeper[0] != null or deeper[1] != null;
        if (is_wanted and scanner.data[start] == '{') {
            if (depth == Scanner.depth_max) return error.TooDeep;
            scanner.at = start + 1;
            return self.readMembers(deeper, depth + 1);
        }
        if (!is_passed) try scanner.skip(depth);
    }

    fn readValue(self: *Reader, field: *Field, depth: u32) Scanner.Error!Field.Value {
        const scanner = &self.scanner;
        const room = field.text[field.start..];
        if (scanner.peek() == '"') {
            field.len = try scanner.string(.text, room);
            return .text;
        }
        const start = scanner.at;
        try scanner.skip(depth);
        const written = scanner.data[start..scanner.at];
        if (std.mem.eql(u8, written, "null")) return .null;
        if (field.is_id) @memcpy(room[0..written.len], written);
        field.len = written.len;
        return .other;
    }

    fn result(self: *Reader) Allocator.Error!Found {
        const gpa = self.gpa;
        const text = try self.fields[0].?.take(gpa);
        errdefer gpa.free(text);
        const spans = try self.fields[0].?.spans.toOwnedSlice(gpa);
        errdefer gpa.free(spans);
        var ids: ?Found.Ids = null;
        if (self.fields[1]) |*field| {
            const id_text = try field.take(gpa);
            errdefer gpa.free(id_text);
            ids = .{ .text = id_text, .spans = try field.spans.toOwnedSlice(gpa) };
        }
        errdefer if (ids) |some| {
            gpa.free(some.text);
            gpa.free(some.spans);
        };
        const lines = try self.lines.toOwnedSlice(gpa);
        errdefer gpa.free(lines);
        return .{
            .text = text,
            .spans = spans,
            .lines = lines,
            .problems = try self.problems.toOwnedSlice(gpa),
            .ids = ids,
            .used = self.scanner.data.len,
            .line_count = self.line_count,
        };
    }
};

/// Like Python's `bytes.isspace`, but also true if empty.
fn isBlank(line: []const u8) bool {
    for (line) |byte| switch (byte) {
        ' ', '\t'...'\r' => {},
        else => return false,
    };
    return true;
}

/// Checks the texts and reasons of a block's lines, in order.
fn expectLines(block: []const u8, field: []const u8, expected: []const []const u8) !void {
    const gpa = std.testing.allocator;
    var found = try read(gpa, block, true, field, null);
    defer found.deinit(gpa);
    var document: usize = 0;
    var problem: usize = 0;
    for (expected) |some| {
        const is_document = problem == found.problems.len or document < found.lines.len and
            found.lines[document].start < found.problems[problem].line.start;
        if (is_document) {
            const text = found.spans[document].in(found.text).?;
            try std.testing.expectEqualStrings(some, text);
            document += 1;
        } else {
            try std.testing.expectEqualStrings(some, @tagName(found.problems[problem].reason));
            problem += 1;
        }
    }
    try std.testing.expectEqual(found.spans.len, document);
    try std.testing.expectEqual(found.problems.len, problem);
}

test "json lines: each line gives its text or its problem" {
    try expectLines(
        \\{"text": "one"}
        \\
        \\{"text": "a\nb \u00e9\ud83d\ude00\ud800!", "x": [1, {"y": NaN}]}
        \\{"text": }
        \\{"other": "text"}
        \\{"text": null}
        \\{"text": 1}
        \\["text"]
        \\{"text": "twice", "text": "last"}
        \\{"t\u0065xt": "escaped"} 
        \\{"text": "cut off
    , "text", &.{
        "one",
        "a\nb é😀\u{fffd}!",
        "not_json",
        "no_field",
        "null_field",
        "not_text",
        "not_object",
        "last",
        "escaped",
        "not_json",
    });
}

test "json lines: a field is a key of its own, or a path of keys" {
    try expectLines(
        \\{"a": {"b": {"c": "deep"}}}
        \\{"a": {"b": {"c": "deep"}}, "a.b.c": "own"}
        \\{"a.b.c": "own", "a": {"b": {"c": "deep"}}}
        \\{"a": {"b": {"c": "deep"}}, "a": {"b": 1}}
        \\{"a.b": {"c": "deep"}}
    , "a.b.c", &.{ "deep", "own", "own", "no_field", "no_field" });
}

test "json lines: an incomplete line is left for the next block" {
    const gpa = std.testing.allocator;
    const block = "{\"text\": \"a\", \"id\": 7}\n{\"text\": ";
    var found = try read(gpa, block, false, "text", "id");
    defer found.deinit(gpa);
    try std.testing.expectEqual(std.mem.indexOfScalar(u8, block, '\n').? + 1, found.used);
    try std.testing.expectEqual(1, found.line_count);
    try std.testing.expectEqualStrings("a", found.text);
    try std.testing.expectEqualStrings("7", found.ids.?.text);
}

test "json lines: damaged input causes no access outside the block" {
    const gpa = std.testing.allocator;
    var random: std.Random.DefaultPrng = .init(std.testing.random_seed);
    const rng = random.random();
    const line = "{\"text\": \"\\u4e2d \\ud800\\udc00 \\\" \\n\", \"a\": {\"b\": [1e5, -0.5]}}\n";
    var block: [3 * line.len]u8 = undefined;
    for (0..examples(20_000)) |_| {
        for (0..3) |index| @memcpy(block[index * line.len ..][0..line.len], line);
        for (0..rng.uintLessThan(usize, 4)) |_| {
            block[rng.uintLessThan(usize, block.len)] = rng.int(u8);
        }
        // In separate memory, so that reads after its end are detected.
        const some = try gpa.dupe(u8, block[0..rng.uintAtMost(usize, block.len)]);
        defer gpa.free(some);
        var found = try read(gpa, some, rng.boolean(), "text", "a.b");
        defer found.deinit(gpa);
        try std.testing.expect(found.text.len <= some.len);
        for (found.spans) |span| try std.testing.expect(span.in(found.text) != null);
    }
}

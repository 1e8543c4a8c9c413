//! Blocks of files → documents, as arrays of bytes and spans; and `tokenmill._native.Checksum`.

const std = @import("std");
const api = @import("api.zig");
const arguments = @import("arguments.zig");
const documents = @import("../documents.zig");
const object_ = @import("object.zig");
const results = @import("results.zig");
const Call = object_.Call;
const Class = object_.Class;
const Data = arguments.Data;
const Error = object_.Error;
const Object = api.Object;
const Span = documents.Span;
const Text = arguments.Text;

const gpa = object_.gpa;
const method = object_.method;
const unlocked = object_.unlocked;

/// split_documents(data, separator, is_last) → (spans, bytes used)
pub fn splitDocuments(_: Call, args: struct {
    data: Data,
    separator: Text,
    is_last: bool,
}) Error!struct { []i64, usize } {
    var spans: std.ArrayList(Span) = .empty;
    defer spans.deinit(gpa);
    const given = .{ gpa, args.data.bytes, args.separator.bytes, args.is_last, &spans };
    const used = try unlocked(documents.split, given);
    return .{ Span.numbers(try spans.toOwnedSlice(gpa)), used };
}

/// The documents of a block of lines: their texts and lines, and the rejected lines.
pub const JsonLines = struct {
    pub const sequence = "JsonLines";

    /// The texts of all documents, and the span of each.
    text: []u8,
    spans: []i64,
    /// The span of each document's line in the block.
    lines: []i64,
    /// Tuples (start, end, line index, number of the reason).
    problems: *Object,
    /// Number of bytes of all lines.
    used: usize,
    ids: ?Ids,
    line_count: usize,
};

/// The id of each document.
pub const Ids = struct {
    pub const sequence = "DocumentIds";

    text: []u8,
    spans: []i64,
};

/// json_lines(data, is_last, field, id_field) → JsonLines
pub fn jsonLines(call: Call, args: struct {
    data: Data,
    is_last: bool,
    field: Text,
    id_field: ?Text,
}) Error!JsonLines {
    const id_field = if (args.id_field) |some| some.bytes else null;
    const given = .{ gpa, args.data.bytes, args.is_last, args.field.bytes, id_field };
    var found = try unlocked(documents.json_lines.read, given);
    errdefer found.deinit(gpa);
    const problems = try problemsOf(call, found.problems);
    gpa.free(found.problems);
    const ids: ?Ids = if (found.ids) |some|
        .{ .text = some.text, .spans = Span.numbers(some.spans) }
    else
        null;
    return .{
        .text = found.text,
        .spans = Span.numbers(found.spans),
        .lines = Span.numbers(found.lines),
        .problems = problems,
        .used = found.used,
        .ids = ids,
        .line_count = found.line_count,
    };
}

fn problemsOf(call: Call, problems: []const documents.json_lines.Problem) Error!*Object {
    const list = api.PyList_New(@intCast(problems.len)) orelse return error.Raised;
    errdefer api.Py_DecRef(list);
    for (problems, 0..) |problem, index| {
        const start, const end = .{ problem.line.start, problem.line.end };
        const reason = @intFromEnum(problem.reason);
        const item = try results.convert(call, .{ start, end, problem.line_index, reason });
        _ = api.PyList_SetItem(list, @intCast(index), item);
    }
    return list;
}

/// utf8_problems(data, spans) → the indices of the documents that are not UTF-8
pub fn utf8Problems(call: Call, args: struct { data: Data, spans: arguments.Spans }) Error![]i64 {
    const texts = try args.spans.in(call, args.data.bytes);
    defer gpa.free(texts);
    return unlocked(documents.utf8.problems, .{ gpa, texts });
}

/// For fewer bytes, releasing the GIL costs more than it gains.
const gil_bytes = 1 << 16;

/// count_newlines(data) → the number of newlines
pub fn countNewlines(_: Call, args: struct { data: Data }) Error!usize {
    const data = args.data.bytes;
    if (data.len < gil_bytes) return documents.countNewlines(data);
    return unlocked(documents.countNewlines, .{data});
}

/// The value of a Checksum.
const Checksum = struct {
    pub const class: Class = .Checksum;
    pub const busy_text = "another thread is using this checksum";

    checksum: documents.Checksum = .{},

    pub fn deinit(self: *Checksum) void {
        self.* = undefined;
    }
};

/// Checksum()
fn newChecksum(_: Call) Error!Checksum {
    return .{};
}

/// update(data)
fn update(_: Call, self: *Checksum, args: struct { data: Data }) Error!void {
    const data = args.data.bytes;
    if (data.len < gil_bytes) return self.checksum.update(data);
    unlocked(documents.Checksum.update, .{ &self.checksum, data });
}

/// value() → the checksum of all bytes so far
fn value(_: Call, self: *Checksum) Error!u64 {
    return self.checksum.value();
}

const methods = [_]api.Method{
    method("update", update),
    method("value", value),
    .{},
};
pub const spec =
    object_.Object(Checksum).spec(&methods, object_.constructor(Checksum, newChecksum), &.{});

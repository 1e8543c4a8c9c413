//! Python objects → the fields of a struct, which are the arguments of a call.
//!
//! A field's name is the argument's name, and its type says how the object is converted and
//! checked. A field with a default is optional. Arguments are positional or keywords. An error
//! names its argument.
//!
//! | type of the field | object |
//! |---|---|
//! | `Text`, `Data`, `Path` | a str as UTF-8, or a bytes-like object |
//! | `bool` | True or False |
//! | an integer, `Int` | an int in the range of the type |
//! | `f64` | a number |
//! | an enum | its name as a str |
//! | `[]const u32` and other numbers | an array, copied, since its memory need not be aligned |
//! | `Texts`, `Spans` | a list of texts, an array of spans |
//! | `*Object(T)` | an instance of exactly this type |
//! | `?T` | the same, or None |
//! | `*api.Object` | any object |

const std = @import("std");
const api = @import("api.zig");
const documents = @import("../documents.zig");
const object_ = @import("object.zig");
const texts_ = @import("texts.zig");
const Call = object_.Call;
const Error = object_.Error;
const Failure = @import("../failure.zig").Failure;
const Object = api.Object;
const Raised = object_.Raised;

pub const Data = texts_.Data;
pub const Path = texts_.Path;
pub const Text = texts_.Text;
pub const Texts = texts_.Texts;

const gpa = object_.gpa;

/// The arguments of a call as Python passes them.
pub const Given = struct {
    objects: Objects,
    /// The keywords: a tuple of names, whose values follow in the vector; or a dict.
    names: ?*Object,

    pub const Objects = union(enum) { vector: []const *Object, tuple: *Object };
};

/// Returns the arguments, which the caller releases.
pub inline fn read(
    comptime T: type,
    call: Call,
    given: Given,
    name: []const u8,
) Error!T {
    const fields = comptime std.meta.fieldNames(T);
    var objects: [fields.len]?*Object = undefined;
    const is_plain = given.names == null and given.objects == .vector and
        given.objects.vector.len == fields.len;
    if (is_plain) {
        for (&objects, given.objects.vector) |*place, object| place.* = object;
    } else try gather(call, name, fields, given, &objects);
    var value: T = undefined;
    var done: usize = 0;
    errdefer inline for (fields, 0..) |field, index| {
        if (index < done) releaseOne(@FieldType(T, field), &@field(value, field));
    };
    inline for (fields, 0..) |field, index| {
        @field(value, field) = if (objects[index]) |object|
            try convert(@FieldType(T, field), call, object, field)
        else if (comptime std.meta.fields(T)[index].defaultValue()) |default|
            default
        else
            return call.fail(.type, "{s} needs the argument {s}", .{ name, field });
        done = index + 1;
    }
    return value;
}

pub fn release(comptime T: type, value: *T) void {
    inline for (comptime std.meta.fieldNames(T)) |field| {
        releaseOne(@FieldType(T, field), &@field(value, field));
    }
}

fn releaseOne(comptime T: type, value: *T) void {
    switch (@typeInfo(T)) {
        .optional => |optional| if (value.*) |*some| releaseOne(optional.child, some),
        .pointer => |pointer| if (pointer.size == .slice) gpa.free(value.*),
        .@"struct", .@"union" => if (@hasDecl(T, "release")) value.release(),
        else => {},
    }
}

/// Sets the object of each argument, or null if it is missing.
fn gather(
    call: Call,
    name: []const u8,
    fields: []const [:0]const u8,
    given: Given,
    objects: []?*Object,
) Raised!void {
    @memset(objects, null);
    const count: usize = switch (given.objects) {
        .vector => |vector| vector.len,
        .tuple => |tuple| @intCast(api.PyTuple_Size(tuple)),
    };
    if (count > fields.len) {
        const format = "{s} takes {d} arguments, got {d}";
        return call.fail(.type, format, .{ name, fields.len, count });
    }
    for (objects[0..count], 0..) |*place, index| place.* = switch (given.objects) {
        .vector => |vector| vector[index],
        .tuple => |tuple| api.PyTuple_GetItem(tuple, @intCast(index)) orelse return error.Raised,
    };
    const names = given.names orelse return;
    switch (given.objects) {
        .vector => |vector| {
            const keywords: usize = @intCast(api.PyTuple_Size(names));
            for (0..keywords) |index| {
                const key = api.PyTuple_GetItem(names, @intCast(index)) orelse return error.Raised;
                const value = vector.ptr[vector.len + index];
                try setNamed(call, name, fields, objects, key, value);
            }
        },
        .tuple => {
            var at: api.Ssize = 0;
            var key: ?*Object = null;
            var value: ?*Object = null;
            while (api.PyDict_Next(names, &at, &key, &value) != 0) {
                try setNamed(call, name, fields, objects, key.?, value.?);
            }
        },
    }
}

fn setNamed(
    call: Call,
    name: []const u8,
    fields: []const [:0]const u8,
    objects: []?*Object,
    key: *Object,
    value: *Object,
) Raised!void {
    var len: api.Ssize = 0;
    const bytes = api.PyUnicode_AsUTF8AndSize(key, &len) orelse return error.Raised;
    const keyword = bytes[0..@intCast(len)];
    for (fields, objects) |field, *place| {
        if (!std.mem.eql(u8, field, keyword)) continue;
        if (place.* != null) {
            return call.fail(.type, "{s} got the argument {s} twice", .{ name, field });
        }
        place.* = value;
        return;
    }
    const known = keyword[0..@min(keyword.len, 80)];
    return call.fail(.type, "{s} has no argument '{s}'", .{ name, known });
}

/// Converts one object. An error calls it `name`.
pub fn convert(comptime T: type, call: Call, object: *Object, name: []const u8) Error!T {
    if (T == *Object) return object;
    switch (@typeInfo(T)) {
        .optional => |optional| {
            if (api.isNone(object)) return null;
            return try convert(optional.child, call, object, name);
        },
        .bool => return api.truth(object) orelse
            wrongType(call, object, name, "must be True or False"),
        .int => return integer(T, call, object, name, std.math.minInt(T), std.math.maxInt(T)),
        .float => return number(call, object, name),
        .@"enum" => return enumeration(T, call, object, name),
        .pointer => |pointer| {
            if (pointer.size == .slice) return numbers(pointer.child, call, object, name);
            const class = pointer.child.Value.class;
            if (object.type == call.state().classes.get(class).?) return .of(object);
            return wrongType(call, object, name, "must be of type " ++ @tagName(class));
        },
        else => return T.from(call, object, name),
    }
}

pub fn wrongType(
    call: Call,
    object: *Object,
    name: []const u8,
    wanted: []const u8,
) Raised {
    const class = api.PyType_GetName(object.type) orelse return error.Raised;
    defer api.Py_DecRef(class);
    var len: api.Ssize = 0;
    const bytes = api.PyUnicode_AsUTF8AndSize(class, &len) orelse return error.Raised;
    const shown = bytes[0..@intCast(@min(len, 80))];
    return call.fail(.type, "{s} {s}, not {s}", .{ name, wanted, shown });
}

/// Replaces the TypeError of a conversion by one with the argument's name. Other exceptions come
/// from the object's own code.
pub fn rename(
    call: Call,
    object: *Object,
    name: []const u8,
    wanted: []const u8,
) Raised {
    if (api.PyErr_ExceptionMatches(api.typeError()) == 0) return error.Raised;
    api.PyErr_Clear();
    return wrongType(call, object, name, wanted);
}

// ── Numbers ──────────────────────────────────────────────────────────────────────────────────────

/// An integer from `least` to `most`.
pub fn Int(comptime T: type, comptime least: T, comptime most: T) type {
    return struct {
        value: T,

        pub fn from(call: Call, object: *Object, name: []const u8) Error!@This() {
            return .{ .value = try integer(T, call, object, name, least, most) };
        }
    };
}

/// A number of bytes, tokens or entries.
pub const Size = Int(usize, 0, std.math.maxInt(isize));
/// The core starts at most 256 threads.
pub const Threads = Int(usize, 1, std.math.maxInt(u16));

fn integer(
    comptime T: type,
    call: Call,
    object: *Object,
    name: []const u8,
    comptime least: T,
    comptime most: T,
) Raised!T {
    return @intCast(try integerWithin(call, object, name, least, most));
}

fn integerWithin(
    call: Call,
    object: *Object,
    name: []const u8,
    least: i128,
    most: i128,
) Raised!i128 {
    if (!api.isLong(object)) {
        const index = api.PyNumber_Index(object) orelse
            return rename(call, object, name, "must be an int");
        defer api.Py_DecRef(index);
        return integerWithin(call, index, name, least, most);
    }
    var overflow: c_int = 0;
    var value: i128 = api.PyLong_AsLongLongAndOverflow(object, &overflow);
    if (overflow > 0) {
        value = api.PyLong_AsUnsignedLongLong(object);
        overflow = @intFromBool(api.PyErr_Occurred() != null);
    }
    if (overflow > 0) api.PyErr_Clear();
    if (overflow == 0 and value >= least and value <= most) return value;
    if (overflow == 0 and value < least) {
        return call.fail(.value, "{s} must be at least {d}, got {d}", .{ name, least, value });
    }
    if (overflow < 0) return call.fail(.value, "{s} must be at least {d}", .{ name, least });
    return call.fail(.value, "{s} must be at most {d}", .{ name, most });
}

fn number(call: Call, object: *Object, name: []const u8) Raised!f64 {
    const value = api.PyFloat_AsDouble(object);
    if (value == -1 and api.PyErr_Occurred() != null) {
        return rename(call, object, name, "must be a number");
    }
    return value;
}

/// Returns a copy of native numbers in an array, or in bytes.
fn numbers(
    comptime Number: type,
    call: Call,
    object: *Object,
    name: []const u8,
) Error![]const Number {
    const wanted = "must be an array of " ++ @typeName(Number);
    const formats = comptime switch (Number) {
        u8 => "B",
        u32 => "IL",
        u64 => "QL",
        i64 => "ql",
        f64 => "d",
        else => unreachable,
    };
    var view = try viewOf(call, object, name, wanted);
    defer api.PyBuffer_Release(&view);
    const size = @sizeOf(Number);
    const len: usize = @intCast(view.len);
    const format = formatOf(&view);
    const is_array = view.itemsize == size and std.mem.indexOfScalar(u8, formats, format) != null;
    const is_bytes = format == 'B' and view.itemsize == 1;
    if (!(is_array or is_bytes) or len % size != 0) {
        return call.fail(.type, "{s} {s}", .{ name, wanted });
    }
    const copy = try gpa.alloc(Number, len / size);
    if (len > 0) @memcpy(std.mem.sliceAsBytes(copy), @as([*]const u8, @ptrCast(view.buf.?)));
    return copy;
}

/// Returns the type of the items of a buffer. The character before it tells the order of the bytes
/// of an array that is not aligned.
fn formatOf(view: *const api.Buffer) u8 {
    const format = view.format orelse return 'B';
    return if (std.mem.indexOfScalar(u8, "@=<^", format[0]) != null) format[1] else format[0];
}

/// Returns a contiguous one-dimensional buffer, so that its format describes the items.
fn viewOf(
    call: Call,
    object: *Object,
    name: []const u8,
    wanted: []const u8,
) Raised!api.Buffer {
    var view: api.Buffer = .{};
    if (api.PyObject_GetBuffer(object, &view, api.BUF_FORMAT | api.BUF_ND) < 0) {
        return rename(call, object, name, wanted);
    }
    return view;
}

fn enumeration(comptime T: type, call: Call, object: *Object, name: []const u8) Error!T {
    if (!api.isUnicode(object)) return wrongType(call, object, name, "must be a str");
    var text = try Text.from(call, object, name);
    defer text.release();
    if (std.meta.stringToEnum(T, text.bytes)) |value| return value;
    const shown = text.bytes[0..@min(text.bytes.len, 80)];
    return call.fail(.value, "unknown {s} '{s}'", .{ name, shown });
}

/// The spans of documents in a block: an array of i64, start and end of each.
pub const Spans = struct {
    view: api.Buffer,

    pub fn from(call: Call, object: *Object, name: []const u8) Raised!Spans {
        const wanted = "must be pairs of i64 numbers";
        var view = try viewOf(call, object, name, wanted);
        const is_number = std.mem.indexOfScalar(u8, "ql", formatOf(&view)) != null;
        const is_array = view.itemsize == 8 and is_number;
        const len: usize = @intCast(view.len);
        if (is_array and len % @sizeOf(documents.Span) == 0) return .{ .view = view };
        api.PyBuffer_Release(&view);
        return call.fail(.type, "{s} {s}", .{ name, wanted });
    }

    /// Returns the texts of the spans in `data`, a list owned by the caller.
    pub fn in(self: *const Spans, call: Call, data: []const u8) Error![]const []const u8 {
        const memory: [*]const u8 = if (self.view.buf) |some| @ptrCast(some) else "";
        const bytes = memory[0..@intCast(self.view.len)];
        const spans = std.mem.bytesAsSlice(documents.Span, bytes);
        var failure: Failure = undefined;
        return documents.textsOf(gpa, spans, data, &failure) catch |reason| switch (reason) {
            error.OutOfMemory => error.OutOfMemory,
            error.Rejected => call.raise(failure),
        };
    }

    pub fn release(self: *Spans) void {
        api.PyBuffer_Release(&self.view);
    }
};

/// The fields of `T` in a tuple.
pub fn Tuple(comptime T: type) type {
    return struct {
        fields: T,

        pub fn from(call: Call, object: *Object, name: []const u8) Error!@This() {
            if (!api.isTuple(object)) return wrongType(call, object, name, "must be a tuple");
            const given: Given = .{ .objects = .{ .tuple = object }, .names = null };
            return .{ .fields = try read(T, call, given, name) };
        }

        pub fn release(self: *@This()) void {
            releaseAll(T, &self.fields);
        }
    };
}

const releaseAll = release;

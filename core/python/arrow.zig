//! Two buffers → a large_list<uint32> in Arrow's C data interface, without a copy.
//!
//! Layout and ownership: arrow.apache.org/docs/format/CDataInterface.html. A consumer may move the
//! child out and outlive the parent, so each node has its own reference to its memory.

const std = @import("std");
const api = @import("api.zig");
const object_ = @import("object.zig");
const Buffer = @import("buffer.zig").Buffer;
const Call = object_.Call;
const Error = object_.Error;

const gpa = object_.gpa;

const Schema = extern struct {
    format: [*:0]const u8,
    name: [*:0]const u8 = "",
    metadata: ?[*]const u8 = null,
    /// 2: nullable, like Arrow's own constructors.
    flags: i64 = 2,
    child_count: i64 = 0,
    children: ?[*]*Schema = null,
    dictionary: ?*Schema = null,
    release: ?*const fn (*Schema) callconv(.c) void,
    private: ?*anyopaque = null,
};

const Array = extern struct {
    length: i64,
    null_count: i64 = 0,
    offset: i64 = 0,
    buffer_count: i64 = 2,
    child_count: i64 = 0,
    buffers: [*]?*const anyopaque,
    children: ?[*]*Array = null,
    dictionary: ?*Array = null,
    release: ?*const fn (*Array) callconv(.c) void,
    private: ?*anyopaque = null,
};

/// Additional data of a struct. A consumer moves the struct, but this stays until release.
const SchemaPrivate = struct { child: Schema, children: [1]*Schema };
const ArrayPrivate = struct {
    memory: *Buffer,
    buffers: [2]?*const anyopaque,
    child: ?Array = null,
    children: [1]*Array = undefined,
};

/// arrow_capsules(ids, offsets) → (schema capsule, array capsule) of the lists
/// `ids[offsets[i]..offsets[i + 1]]`
pub fn capsules(call: Call, args: struct {
    ids: *object_.Object(Buffer),
    offsets: *object_.Object(Buffer),
}) Error!struct { *api.Object, *api.Object } {
    const ids, const offsets = .{ args.ids.value.?, args.offsets.value.? };
    const is_narrow = ids.of(.u16) != null;
    const bounds = offsets.of(.i64);
    if (bounds == null or !(is_narrow or ids.of(.u32) != null)) {
        return call.fail(.type, "ids must be u16 or u32 numbers, and offsets i64 numbers", .{});
    }
    // A consumer reads the memory without a check.
    if (!areOffsets(bounds.?, ids.shape)) {
        return call.fail(.value, "offsets must rise from 0 to the number of ids", .{});
    }
    const schema = try schemaCapsule(if (is_narrow) "S" else "I");
    errdefer api.Py_DecRef(schema);
    return .{ schema, try arrayCapsule(ids, offsets) };
}

fn areOffsets(offsets: []const i64, len: api.Ssize) bool {
    if (offsets.len == 0 or offsets[0] != 0 or offsets[offsets.len - 1] != len) return false;
    for (offsets[1..], offsets[0 .. offsets.len - 1]) |end, start| if (end < start) return false;
    return true;
}

fn schemaCapsule(item_format: [*:0]const u8) Error!*api.Object {
    const private = try gpa.create(SchemaPrivate);
    private.child = .{ .format = item_format, .name = "item", .release = releaseChildSchema };
    private.children = .{&private.child};
    const schema: Schema = .{
        .format = "+L",
        .child_count = 1,
        .children = &private.children,
        .release = releaseSchema,
        .private = private,
    };
    return capsuleOf(Schema, schema, "arrow_schema");
}

fn arrayCapsule(ids: *Buffer, offsets: *Buffer) Error!*api.Object {
    var list = try arrayOf(offsets, offsets.shape - 1);
    const private: *ArrayPrivate = @ptrCast(@alignCast(list.private.?));
    private.child = arrayOf(ids, ids.shape) catch |failure| {
        releaseArray(&list);
        return failure;
    };
    private.children = .{&private.child.?};
    list.child_count = 1;
    list.children = &private.children;
    return capsuleOf(Array, list, "arrow_array");
}

fn arrayOf(owner: *Buffer, length: api.Ssize) Error!Array {
    const private = try gpa.create(ArrayPrivate);
    owner.retain();
    private.* = .{ .memory = owner, .buffers = .{ null, owner.data() } };
    return .{
        .length = length,
        .buffers = &private.buffers,
        .release = releaseArray,
        .private = private,
    };
}

/// Returns a capsule with a copy of a struct. It releases the struct unless a consumer has moved
/// it.
fn capsuleOf(comptime T: type, value: T, comptime name: [:0]const u8) Error!*api.Object {
    const destroy = struct {
        fn destroy(capsule: *api.Object) callconv(.c) void {
            const shell: *T = @ptrCast(@alignCast(api.PyCapsule_GetPointer(capsule, name).?));
            if (shell.release) |release| release(shell);
            gpa.destroy(shell);
        }
    }.destroy;
    var moved = value;
    const shell = gpa.create(T) catch {
        moved.release.?(&moved);
        return error.OutOfMemory;
    };
    shell.* = value;
    return api.PyCapsule_New(shell, name, destroy) orelse {
        shell.release.?(shell);
        gpa.destroy(shell);
        return error.Raised;
    };
}

// The formats are constants, so a moved child owns no memory.
fn releaseChildSchema(schema: *Schema) callconv(.c) void {
    schema.release = null;
}

fn releaseSchema(schema: *Schema) callconv(.c) void {
    gpa.destroy(@as(*SchemaPrivate, @ptrCast(@alignCast(schema.private.?))));
    schema.release = null;
}

fn releaseArray(array: *Array) callconv(.c) void {
    const private: *ArrayPrivate = @ptrCast(@alignCast(array.private.?));
    if (private.child) |*child| {
        if (child.release) |release| release(child);
    }
    private.memory.release();
    gpa.destroy(private);
    array.release = null;
}

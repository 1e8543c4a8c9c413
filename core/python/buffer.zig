//! Numbers of the core → `tokenmill._native.Buffer`, which owns them. numpy reads them without a
//! copy.

const std = @import("std");
const api = @import("api.zig");
const object_ = @import("object.zig");
const Class = object_.Class;
const Error = object_.Error;
const Instance = object_.Object(Buffer);

const gpa = object_.gpa;

pub const Kind = enum(u8) {
    u8,
    u16,
    u32,
    u64,
    i64,

    fn format(kind: Kind) [*:0]const u8 {
        return switch (kind) {
            .u8 => "B",
            .u16 => "H",
            .u32 => "I",
            .u64 => "Q",
            .i64 => "q",
        };
    }
};

/// The value of a Buffer: numbers with a reference count. Its users are the object, and Arrow
/// arrays, which are released on any thread and even after the interpreter has ended, so Python's
/// reference count cannot be used.
pub const Buffer = struct {
    pub const class: Class = .Buffer;

    users: std.atomic.Value(usize),
    items: Items,
    shape: api.Ssize,
    strides: api.Ssize,

    pub const Items = union(Kind) { u8: []u8, u16: []u16, u32: []u32, u64: []u64, i64: []i64 };

    /// Takes ownership of `items`, a slice that is allocated with `gpa`, also if the call fails.
    pub fn create(state: *object_.State, items: anytype) Error!*api.Object {
        const Item = @typeInfo(@TypeOf(items)).pointer.child;
        const self = gpa.create(Buffer) catch {
            gpa.free(items);
            return error.OutOfMemory;
        };
        self.* = .{
            .users = .init(1),
            .items = @unionInit(Items, @typeName(Item), items),
            .shape = @intCast(items.len),
            .strides = @sizeOf(Item),
        };
        return Instance.wrap(state, self);
    }

    pub fn retain(self: *Buffer) void {
        _ = self.users.fetchAdd(1, .monotonic);
    }
    pub fn release(self: *Buffer) void {
        if (self.users.fetchSub(1, .acq_rel) != 1) return;
        switch (self.items) {
            inline else => |items| gpa.free(items),
        }
        gpa.destroy(self);
    }
    pub fn data(self: *const Buffer) *anyopaque {
        return switch (self.items) {
            inline else => |items| if (items.len > 0) items.ptr else @ptrCast(&empty),
        };
    }

    /// Returns the numbers; null if they are of another kind.
    pub fn of(self: *const Buffer, comptime kind: Kind) ?@FieldType(Items, @tagName(kind)) {
        return if (self.items == kind) @field(self.items, @tagName(kind)) else null;
    }
};

/// The address of an empty buffer, since some consumers reject null.
var empty: u64 align(64) = 0;

fn length(object: *api.Object) callconv(.c) api.Ssize {
    return Instance.of(object).value.?.shape;
}

fn get(object: *api.Object, view: *api.Buffer, flags: c_int) callconv(.c) c_int {
    const self = Instance.of(object).value.?;
    const kind: Kind = self.items;
    const wants_strides = flags & api.BUF_STRIDES == api.BUF_STRIDES;
    api.Py_IncRef(object);
    view.* = .{
        .buf = self.data(),
        .obj = object,
        .len = self.shape * self.strides,
        .itemsize = self.strides,
        .readonly = 0,
        .ndim = 1,
        .format = if (flags & api.BUF_FORMAT != 0) kind.format() else null,
        .shape = if (flags & api.BUF_ND != 0) @ptrCast(&self.shape) else null,
        .strides = if (wants_strides) @ptrCast(&self.strides) else null,
    };
    return 0;
}

pub const spec = Instance.spec(&.{.{}}, null, &.{
    .{ .slot = api.sq_length, .function = @ptrCast(&length) },
    .{ .slot = api.bf_getbuffer, .function = @ptrCast(&get) },
});

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

/// The value of a Buffer.
pub const Buffer = struct {
    pub const class: Class = .Buffer;

    memory: *Memory,
    shape: api.Ssize,
    strides: api.Ssize,

    /// Takes ownership of `items`, a slice that is allocated with `gpa`, also if the call fails.
    pub fn create(state: *object_.State, items: anytype) Error!*api.Object {
        const Item = @typeInfo(@TypeOf(items)).pointer.child;
        const memory = gpa.create(Memory) catch {
            gpa.free(items);
            return error.OutOfMemory;
        };
        const kind = @typeName(Item);
        memory.* = .{ .users = .init(1), .items = @unionInit(Memory.Items, kind, items) };
        return Instance.create(state, .{
            .memory = memory,
            .shape = @intCast(items.len),
            .strides = @sizeOf(Item),
        });
    }

    pub fn deinit(self: *Buffer) void {
        self.memory.release();
    }

    /// Returns the numbers; null if they are of another kind.
    pub fn of(self: *const Buffer, comptime kind: Kind) ?@FieldType(Memory.Items, @tagName(kind)) {
        return if (self.memory.items == kind) @field(self.memory.items, @tagName(kind)) else null;
    }
};

/// Numbers with a reference count. The users are the buffer, and Arrow arrays, which are released
/// on any thread and even after the interpreter has ended, so Python's reference count cannot be
/// used.
pub const Memory = struct {
    users: std.atomic.Value(usize),
    items: Items,

    pub const Items = union(Kind) { u8: []u8, u16: []u16, u32: []u32, u64: []u64, i64: []i64 };

    pub fn retain(self: *Memory) void {
        _ = self.users.fetchAdd(1, .monotonic);
    }
    pub fn release(self: *Memory) void {
        if (self.users.fetchSub(1, .acq_rel) != 1) return;
        switch (self.items) {
            inline else => |items| gpa.free(items),
        }
        gpa.destroy(self);
    }
    pub fn data(self: *const Memory) *anyopaque {
        return switch (self.items) {
            inline else => |items| if (items.len > 0) items.ptr else @ptrCast(&empty),
        };
    }
};

/// The address of an empty buffer, since some consumers reject null.
var empty: u64 align(64) = 0;

fn length(object: *api.Object) callconv(.c) api.Ssize {
    return Instance.of(object).value.?.shape;
}

fn get(object: *api.Object, view: *api.Buffer, flags: c_int) callconv(.c) c_int {
    const self = Instance.of(object).value.?;
    const kind: Kind = self.memory.items;
    const wants_strides = flags & api.BUF_STRIDES == api.BUF_STRIDES;
    api.Py_IncRef(object);
    view.* = .{
        .buf = self.memory.data(),
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

//! A str or bytes-like object → its bytes, kept alive while they are read without the GIL.

const std = @import("std");
const api = @import("api.zig");
const arguments = @import("arguments.zig");
const object_ = @import("object.zig");
const Call = object_.Call;
const Error = object_.Error;
const Object = api.Object;
const Raised = object_.Raised;
const rename = arguments.rename;
const wrongType = arguments.wrongType;

const gpa = object_.gpa;

/// The bytes of a str or of a bytes-like object. CPython caches the UTF-8 of a non-ASCII str with
/// the str. Unpaired surrogates raise UnicodeEncodeError, and the Python package retries with a
/// repaired str. Writable memory is copied, since another thread may change it during the call: the
/// cache would keep the ids of some bytes under the key of others.
pub const Text = struct {
    bytes: []const u8,
    object: *Object,
    /// Not for str and bytes, which are immutable. Elsewhere, so that a text is cheap to copy.
    view: ?*api.Buffer = null,
    is_copy: bool = false,

    pub fn from(call: Call, object: *Object, name: []const u8) Error!Text {
        var text: Text = try .shared(call, object, name);
        const view = text.view orelse return text;
        if (view.readonly != 0) return text;
        defer text.release();
        return .{ .bytes = try gpa.dupe(u8, text.bytes), .object = object, .is_copy = true };
    }

    /// Returns a text that may be in writable memory.
    fn shared(call: Call, object: *Object, name: []const u8) Error!Text {
        var len: api.Ssize = 0;
        if (api.isUnicode(object)) {
            const bytes = api.PyUnicode_AsUTF8AndSize(object, &len) orelse return error.Raised;
            return .{ .bytes = bytes[0..@intCast(len)], .object = object };
        }
        if (api.isBytes(object)) {
            var bytes: [*]const u8 = undefined;
            if (api.PyBytes_AsStringAndSize(object, &bytes, &len) < 0) return error.Raised;
            return .{ .bytes = bytes[0..@intCast(len)], .object = object };
        }
        const view = try gpa.create(api.Buffer);
        errdefer gpa.destroy(view);
        if (api.PyObject_GetBuffer(object, view, api.BUF_SIMPLE) < 0) {
            return rename(call, object, name, "must be a str or bytes-like");
        }
        errdefer api.PyBuffer_Release(view);
        if (view.itemsize != 1) {
            return wrongType(call, object, name, "must be a str or have items of one byte");
        }
        const memory: ?[*]const u8 = @ptrCast(view.buf);
        const bytes = if (view.len > 0) memory.?[0..@intCast(view.len)] else "";
        return .{ .bytes = bytes, .object = object, .view = view };
    }

    pub fn release(self: *Text) void {
        if (self.is_copy) gpa.free(self.bytes);
        const view = self.view orelse return;
        api.PyBuffer_Release(view);
        gpa.destroy(view);
    }

    /// Returns a part of the text, or another one, as an object of the same type: a str for a str,
    /// otherwise bytes.
    pub fn like(self: *const Text, bytes: []const u8) Raised!*Object {
        const len: api.Ssize = @intCast(bytes.len);
        const made = if (api.isUnicode(self.object))
            api.PyUnicode_DecodeUTF8(bytes.ptr, len, null)
        else
            api.PyBytes_FromStringAndSize(bytes.ptr, len);
        return made orelse error.Raised;
    }

    /// Returns the number of characters of a str, null for bytes.
    pub fn characters(self: *const Text) ?usize {
        if (!api.isUnicode(self.object)) return null;
        return @intCast(api.PyUnicode_GetLength(self.object));
    }
};

/// The bytes of a block of a corpus, which nothing changes during the call. They are not copied.
pub const Data = struct {
    text: Text,
    bytes: []const u8,

    pub fn from(call: Call, object: *Object, name: []const u8) Error!Data {
        const text: Text = try .shared(call, object, name);
        return .{ .text = text, .bytes = text.bytes };
    }

    pub fn release(self: *Data) void {
        self.text.release();
    }
};

/// The path of a file. It has no zero byte.
pub const Path = struct {
    text: Text,

    pub fn from(call: Call, object: *Object, name: []const u8) Error!Path {
        var text = try Text.from(call, object, name);
        if (std.mem.indexOfScalar(u8, text.bytes, 0) == null) return .{ .text = text };
        text.release();
        return call.fail(.value, "{s} must not have a zero byte", .{name});
    }

    pub fn release(self: *Path) void {
        self.text.release();
    }
};

/// The texts of a list, kept alive while they are read without the GIL.
pub const Texts = struct {
    objects: std.ArrayList(*Object) = .empty,
    texts: std.ArrayList(Text) = .empty,
    slices: std.ArrayList([]const u8) = .empty,

    pub fn from(call: Call, list: *Object, name: []const u8) Error!Texts {
        if (!api.isList(list)) return wrongType(call, list, name, "must be a list");
        var self: Texts = .{};
        errdefer self.release();
        const len: usize = @intCast(api.PyList_Size(list));
        try self.objects.ensureTotalCapacity(gpa, len);
        try self.texts.ensureTotalCapacity(gpa, len);
        try self.slices.ensureTotalCapacity(gpa, len);
        for (0..len) |index| {
            const object = api.PyList_GetItem(list, @intCast(index)) orelse return error.Raised;
            // Requesting a buffer may run Python code that removes the object from the list.
            api.Py_IncRef(object);
            self.objects.appendAssumeCapacity(object);
            const text = try Text.from(call, object, "an item of the list");
            self.texts.appendAssumeCapacity(text);
            self.slices.appendAssumeCapacity(text.bytes);
        }
        return self;
    }

    pub fn release(self: *Texts) void {
        for (self.texts.items) |*text| text.release();
        for (self.objects.items) |object| api.Py_DecRef(object);
        self.objects.deinit(gpa);
        self.texts.deinit(gpa);
        self.slices.deinit(gpa);
    }
};

//! Python texts → bytes: a str through its UTF-8, anything bytes-like through its buffer.
//!
//! CPython makes the UTF-8 of a non-ASCII str once and keeps it with the str, so that encoding it
//! again is fast. Who reads a text only once asks for a copy, which goes when it was read. Lone
//! surrogates raise UnicodeEncodeError, which the facade answers with a repaired str.

const api = @import("api.zig");
const gpa = @import("buffer.zig").gpa;
const Object = api.Object;

/// The bytes of a str or of anything bytes-like.
pub const Text = struct {
    bytes: []const u8,
    view: api.Buffer = .{},
    /// The bytes, where nobody else has them.
    copy: ?*Object = null,

    /// A str of so many characters is worth asking whether it has to be copied.
    const long_len = 1 << 10;

    /// Leaves nothing behind in a str.
    pub fn fromOnce(object: *Object) ?Text {
        if (!api.isUnicode(object)) return from(object);
        if (api.PyUnicode_GetLength(object) >= long_len) {
            if (isAscii(object) orelse return null) return from(object);
        }
        const copy = api.PyUnicode_AsUTF8String(object) orelse return null;
        const bytes = api.PyBytes_AsString(copy).?;
        return .{ .bytes = bytes[0..@intCast(api.PyBytes_Size(copy))], .copy = copy };
    }

    fn isAscii(object: *Object) ?bool {
        const method = api.PyObject_GetAttrString(object, "isascii") orelse return null;
        defer api.Py_DecRef(method);
        const answer = api.PyObject_CallObject(method, null) orelse return null;
        defer api.Py_DecRef(answer);
        return api.PyObject_IsTrue(answer) == 1;
    }

    pub fn from(object: *Object) ?Text {
        if (api.isUnicode(object)) {
            var len: api.Ssize = 0;
            const bytes = api.PyUnicode_AsUTF8AndSize(object, &len) orelse return null;
            return .{ .bytes = bytes[0..@intCast(len)] };
        }
        var text: Text = .{ .bytes = &.{} };
        if (api.PyObject_GetBuffer(object, &text.view, api.BUF_SIMPLE) < 0) return null;
        if (text.view.itemsize != 1) {
            // Numbers are not text: the facade says so with the value.
            text.release();
            api.PyErr_SetString(api.typeError(), "a text has items of one byte");
            return null;
        }
        if (text.view.len > 0) {
            text.bytes = @as([*]const u8, @ptrCast(text.view.buf.?))[0..@intCast(text.view.len)];
        }
        return text;
    }

    pub fn release(self: *Text) void {
        if (self.view.obj != null) api.PyBuffer_Release(&self.view);
        if (self.copy) |copy| api.Py_DecRef(copy);
    }
};

/// The texts of a list, kept alive while they are read without the GIL.
pub const Texts = struct {
    objects: []*Object,
    texts: []Text,
    slices: [][]const u8,

    pub fn from(list: *Object) ?Texts {
        return fromWith(list, Text.from);
    }

    /// For texts that are read once.
    pub fn fromOnce(list: *Object) ?Texts {
        return fromWith(list, Text.fromOnce);
    }

    fn fromWith(list: *Object, comptime textFrom: fn (*Object) ?Text) ?Texts {
        const len: usize = @intCast(api.PyList_Size(list));
        var self: Texts = .{ .objects = &.{}, .texts = &.{}, .slices = &.{} };
        self.allocate(len) catch {
            self.release(0);
            _ = api.PyErr_NoMemory();
            return null;
        };
        for (0..len) |index| {
            const object = api.PyList_GetItem(list, @intCast(index)) orelse {
                self.release(index);
                return null;
            };
            // Asking for a buffer may run Python code that takes the object out of the list.
            api.Py_IncRef(object);
            self.texts[index] = textFrom(object) orelse {
                api.Py_DecRef(object);
                self.release(index);
                return null;
            };
            self.objects[index] = object;
            self.slices[index] = self.texts[index].bytes;
        }
        return self;
    }

    fn allocate(self: *Texts, len: usize) !void {
        self.objects = try gpa.alloc(*Object, len);
        self.texts = try gpa.alloc(Text, len);
        self.slices = try gpa.alloc([]const u8, len);
    }

    pub fn release(self: *Texts, filled: usize) void {
        for (self.texts[0..filled], self.objects[0..filled]) |*text, object| {
            text.release();
            api.Py_DecRef(object);
        }
        gpa.free(self.objects);
        gpa.free(self.texts);
        gpa.free(self.slices);
    }
};

//! Python texts → bytes: a str as UTF-8, bytes-like objects through their buffer.
//!
//! CPython caches the UTF-8 of a non-ASCII str with the str. Unpaired surrogates raise
//! UnicodeEncodeError, and the Python package retries with a repaired str.

const api = @import("api.zig");
const gpa = @import("buffer.zig").gpa;
const Object = api.Object;

/// The bytes of a str or of a bytes-like object.
pub const Text = struct {
    bytes: []const u8,
    view: api.Buffer = .{},

    pub fn from(object: *Object) ?Text {
        if (api.isUnicode(object)) {
            var len: api.Ssize = 0;
            const bytes = api.PyUnicode_AsUTF8AndSize(object, &len) orelse return null;
            return .{ .bytes = bytes[0..@intCast(len)] };
        }
        var text: Text = .{ .bytes = &.{} };
        if (api.PyObject_GetBuffer(object, &text.view, api.BUF_SIMPLE) < 0) return null;
        if (text.view.itemsize != 1) {
            // Numbers are not text. The Python package raises an error with the value.
            text.release();
            api.PyErr_SetString(api.typeError(), "a text must have items of one byte");
            return null;
        }
        if (text.view.len > 0) {
            text.bytes = @as([*]const u8, @ptrCast(text.view.buf.?))[0..@intCast(text.view.len)];
        }
        return text;
    }

    pub fn release(self: *Text) void {
        if (self.view.obj != null) api.PyBuffer_Release(&self.view);
    }
};

/// The texts of a list, kept alive while they are read without the GIL.
pub const Texts = struct {
    objects: []*Object,
    texts: []Text,
    slices: [][]const u8,

    pub fn from(list: *Object) ?Texts {
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
            // Requesting a buffer may run Python code that removes the object from the list.
            api.Py_IncRef(object);
            self.texts[index] = Text.from(object) orelse {
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

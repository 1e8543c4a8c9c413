//! CPython's stable ABI (cp311-abi3), as far as the binding uses it.
//!
//! Declared by hand, so that building needs no Python headers and cross-compiles to any target.

const builtin = @import("builtin");

pub const Ssize = isize;

/// The head of every object, fixed by the stable ABI on builds with a GIL.
pub const Object = extern struct { refcount: isize, type: *Type };
pub const Type = opaque {};
pub const ThreadState = opaque {};

pub const Method = extern struct {
    name: ?[*:0]const u8 = null,
    function: ?*const anyopaque = null,
    flags: c_int = 0,
    doc: ?[*:0]const u8 = null,
};
pub const METH_FASTCALL = 0x0080;
pub const METH_KEYWORDS = 0x0002;

pub const ModuleSlot = extern struct { slot: c_int = 0, value: ?*const anyopaque = null };
pub const mod_exec = 2;
pub const mod_multiple_interpreters = 3; // since 3.12

pub const ModuleDef = extern struct {
    refcount: isize = 1,
    type: ?*Type = null,
    init: ?*const anyopaque = null,
    index: Ssize = 0,
    copy: ?*Object = null,
    name: [*:0]const u8,
    doc: ?[*:0]const u8 = null,
    size: Ssize = 0,
    methods: ?[*]const Method = null,
    slots: ?[*]const ModuleSlot = null,
    traverse: ?*const anyopaque = null,
    clear: ?*const anyopaque = null,
    free: ?*const anyopaque = null,
};

pub const TypeSlot = extern struct { slot: c_int = 0, function: ?*const anyopaque = null };
pub const TypeSpec = extern struct {
    name: [*:0]const u8,
    basicsize: c_int,
    itemsize: c_int = 0,
    flags: c_uint,
    slots: [*]const TypeSlot,
};
pub const TPFLAGS_DEFAULT = 1 << 18;
pub const TPFLAGS_DISALLOW_INSTANTIATION = 1 << 7;
pub const TPFLAGS_IMMUTABLETYPE = 1 << 8;
pub const bf_getbuffer = 1;
pub const sq_length = 45;
pub const tp_dealloc = 52;
pub const tp_methods = 64;
pub const tp_new = 65;

const flag_long = 1 << 24;
const flag_list = 1 << 25;
const flag_tuple = 1 << 26;
const flag_bytes = 1 << 27;
const flag_unicode = 1 << 28;

pub const Buffer = extern struct {
    buf: ?*anyopaque = null,
    obj: ?*Object = null,
    len: Ssize = 0,
    itemsize: Ssize = 0,
    readonly: c_int = 0,
    ndim: c_int = 0,
    format: ?[*:0]const u8 = null,
    shape: ?[*]Ssize = null,
    strides: ?[*]Ssize = null,
    suboffsets: ?[*]Ssize = null,
    internal: ?*anyopaque = null,
};
pub const BUF_SIMPLE = 0;
pub const BUF_FORMAT = 4;
pub const BUF_ND = 8;
pub const BUF_STRIDES = 0x10 | BUF_ND;

/// The fields of a struct sequence: a tuple whose items are also attributes.
pub const SequenceField = extern struct { name: ?[*:0]const u8 = null, doc: ?[*:0]const u8 = null };
pub const SequenceSpec = extern struct {
    name: [*:0]const u8,
    doc: ?[*:0]const u8 = null,
    fields: [*]const SequenceField,
    length: c_int,
};

pub extern fn PyModuleDef_Init(*ModuleDef) ?*Object;
pub extern fn PyModule_GetState(*Object) ?*anyopaque;
pub extern fn PyModule_AddType(*Object, *Type) c_int;
pub extern fn PyModule_AddStringConstant(*Object, [*:0]const u8, [*:0]const u8) c_int;
pub extern fn PyType_FromModuleAndSpec(*Object, *const TypeSpec, ?*Object) ?*Object;
pub extern fn PyType_GenericAlloc(*Type, Ssize) ?*Object;
pub extern fn PyType_GetModuleState(*Type) ?*anyopaque;
pub extern fn PyType_GetFlags(*Type) c_ulong;
pub extern fn PyType_GetName(*Type) ?*Object;
pub extern fn PyObject_Free(?*anyopaque) void;
pub extern fn PyImport_ImportModule([*:0]const u8) ?*Object;
pub extern fn PyObject_GetAttrString(*Object, [*:0]const u8) ?*Object;
pub extern fn PyObject_CallObject(*Object, ?*Object) ?*Object;
pub extern fn PyGC_Disable() c_int;
pub extern fn PyGC_Enable() c_int;
pub extern fn PyList_New(Ssize) ?*Object;
pub extern fn PyList_Size(*Object) Ssize;
pub extern fn PyList_GetItem(*Object, Ssize) ?*Object;
pub extern fn PyList_SetItem(*Object, Ssize, *Object) c_int;
pub extern fn PyFloat_AsDouble(*Object) f64;
pub extern fn PyObject_IsTrue(*Object) c_int;
pub extern fn PyTuple_New(Ssize) ?*Object;
pub extern fn PyTuple_Size(*Object) Ssize;
pub extern fn PyTuple_GetItem(*Object, Ssize) ?*Object;
pub extern fn PyTuple_SetItem(*Object, Ssize, *Object) c_int;
pub extern fn PyLong_FromUnsignedLongLong(c_ulonglong) ?*Object;
pub extern fn PyLong_FromLongLong(c_longlong) ?*Object;
pub extern fn PyLong_AsLongLong(*Object) c_longlong;
pub extern fn PyLong_AsLongLongAndOverflow(*Object, *c_int) c_longlong;
pub extern fn PyLong_AsUnsignedLongLong(*Object) c_ulonglong;
pub extern fn PyNumber_Index(*Object) ?*Object;
pub extern fn PyDict_Next(*Object, *Ssize, *?*Object, *?*Object) c_int;
pub extern fn PyStructSequence_NewType(*const SequenceSpec) ?*Type;
pub extern fn PyStructSequence_New(*Type) ?*Object;
pub extern fn PyStructSequence_SetItem(*Object, Ssize, *Object) void;
pub extern fn PyBytes_FromStringAndSize(?[*]const u8, Ssize) ?*Object;
pub extern fn PyBytes_AsStringAndSize(*Object, *[*]const u8, *Ssize) c_int;
pub extern fn PyUnicode_AsUTF8AndSize(*Object, *Ssize) ?[*]const u8;
pub extern fn PyUnicode_GetLength(*Object) Ssize;
pub extern fn PyUnicode_DecodeUTF8([*]const u8, Ssize, ?[*:0]const u8) ?*Object;
pub extern fn PyObject_GetBuffer(*Object, *Buffer, c_int) c_int;
pub extern fn PyBuffer_Release(*Buffer) void;
pub const Destructor = ?*const fn (*Object) callconv(.c) void;
pub extern fn PyCapsule_New(*anyopaque, [*:0]const u8, Destructor) ?*Object;
pub extern fn PyCapsule_GetPointer(*Object, [*:0]const u8) ?*anyopaque;
pub extern fn PyEval_SaveThread() ?*ThreadState;
pub extern fn PyEval_RestoreThread(?*ThreadState) void;
pub extern fn PyErr_SetObject(*Object, *Object) void;
pub extern fn PyErr_ExceptionMatches(*Object) c_int;
pub extern fn PyErr_NoMemory() ?*Object;
pub extern fn PyErr_Clear() void;
pub extern fn PyErr_Occurred() ?*Object;
pub extern fn PyErr_CheckSignals() c_int;
pub extern fn Py_IncRef(?*Object) void;
pub extern fn Py_DecRef(?*Object) void;
pub extern fn Py_GetVersion() [*:0]const u8;

pub fn isLong(object: *Object) bool {
    return PyType_GetFlags(object.type) & flag_long != 0;
}
pub fn isBytes(object: *Object) bool {
    return PyType_GetFlags(object.type) & flag_bytes != 0;
}
pub fn isUnicode(object: *Object) bool {
    return PyType_GetFlags(object.type) & flag_unicode != 0;
}
pub fn isList(object: *Object) bool {
    return PyType_GetFlags(object.type) & flag_list != 0;
}
pub fn isTuple(object: *Object) bool {
    return PyType_GetFlags(object.type) & flag_tuple != 0;
}
pub fn isNone(object: *Object) bool {
    return object == data("_Py_NoneStruct");
}
/// Returns whether an object is True; null if it is neither True nor False.
pub fn truth(object: *Object) ?bool {
    if (object == data("_Py_TrueStruct")) return true;
    return if (object == data("_Py_FalseStruct")) false else null;
}
/// Returns a new reference to None.
pub fn none() *Object {
    const object = data("_Py_NoneStruct");
    Py_IncRef(object);
    return object;
}
/// Returns a new reference to True or False.
pub fn boolean(value: bool) *Object {
    const object = if (value) data("_Py_TrueStruct") else data("_Py_FalseStruct");
    Py_IncRef(object);
    return object;
}
pub fn typeError() *Object {
    return pointer("PyExc_TypeError");
}
pub fn runtimeError() *Object {
    return pointer("PyExc_RuntimeError");
}
pub fn osError() *Object {
    return pointer("PyExc_OSError");
}
pub fn valueError() *Object {
    return pointer("PyExc_ValueError");
}

// On Windows a data symbol is accessed through the import table.
fn data(comptime name: []const u8) *Object {
    if (builtin.os.tag == .windows) return @extern(*const *Object, .{ .name = "__imp_" ++ name }).*;
    return @extern(*Object, .{ .name = name });
}
fn pointer(comptime name: []const u8) *Object {
    if (builtin.os.tag == .windows) {
        return @extern(*const *const *Object, .{ .name = "__imp_" ++ name }).*.*;
    }
    return @extern(*const *Object, .{ .name = name }).*;
}

/// Returns the minor version of the running interpreter: 13 for "3.13.0 (…)".
pub fn minorVersion() u32 {
    const version = Py_GetVersion();
    var minor: u32 = 0;
    var index: usize = 2;
    while (version[index] >= '0' and version[index] <= '9') : (index += 1) {
        minor = minor * 10 + (version[index] - '0');
    }
    return minor;
}

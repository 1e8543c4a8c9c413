//! The block scanners for one CPU feature level → an object file.
//!
//! `build.py` compiles this file once per CPU feature level, in parallel with the rest of the core,
//! and links the objects into the module. pretokens/levels.zig selects one when the module is
//! loaded.

const std = @import("std");
const builtin = @import("builtin");
const levels = @import("pretokens/levels.zig");

comptime {
    const cpu = builtin.cpu;
    const name = if (cpu.arch != .x86_64)
        "baseline"
    else if (std.Target.x86.featureSetHas(cpu.features, .avx512bw))
        "v4"
    else if (std.Target.x86.featureSetHas(cpu.features, .avx2))
        "v3"
    else
        "baseline";
    @export(&levels.compiled, .{ .name = "tokenmill_scanners_" ++ name });
}

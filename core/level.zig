//! The scanners once more, for a processor that can do more than the rest of the core asks for.
//!
//! `build.py` compiles this file for each level above the baseline and links the objects into the
//! module; pretokens/levels.zig picks one when the module is loaded.

const std = @import("std");
const builtin = @import("builtin");
const levels = @import("pretokens/levels.zig");

comptime {
    const features = builtin.cpu.features;
    const name = if (std.Target.x86.featureSetHas(features, .avx512bw)) "v4" else "v3";
    @export(&levels.compiled, .{ .name = "tokenmill_scanners_" ++ name });
}

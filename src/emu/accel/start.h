// start: help against ROCr 7.2.4, whose libhsakmt, when a model takes the place of the GPU's
// driver, allocates and fills an array of a length that it never set: up to 4 GiB, seconds, at
// every start. It can do without the array, so from the loading of the model until the NPU is
// opened the process gets little more memory than it has. A GPU model calls the first in a
// constructor and the second when it is first used; both are weak, for libaccel-emu.so, which has
// them, need not be there.
#pragma once

__attribute__((weak, visibility("default"))) void accel_start_hold(void);
__attribute__((weak, visibility("default"))) void accel_start_release(void);

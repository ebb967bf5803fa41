# Toolchain file for the other one of amd64 and arm64, with Debian's cross compiler and the libraries that
# tests/cross.sh unpacked; programs run under qemu-user, ctest's too.
#
#   cmake -DCMAKE_TOOLCHAIN_FILE=cmake/cross.cmake -DCROSS_ARCH=arm64 -DCROSS_ROOT=<root> ...
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES CROSS_ARCH CROSS_ROOT)
if(CROSS_ARCH STREQUAL arm64)
    set(CMAKE_SYSTEM_PROCESSOR aarch64)
elseif(CROSS_ARCH STREQUAL amd64)
    set(CMAKE_SYSTEM_PROCESSOR x86_64)
else()
    message(FATAL_ERROR "CROSS_ARCH is '${CROSS_ARCH}', neither arm64 nor amd64")
endif()
set(CMAKE_SYSTEM_NAME Linux)
set(triplet ${CMAKE_SYSTEM_PROCESSOR}-linux-gnu)
set(CMAKE_C_COMPILER ${triplet}-gcc)
set(CMAKE_LIBRARY_ARCHITECTURE ${triplet})

# Libraries and headers are those of the other architecture only, programs those of this machine.
set(CMAKE_FIND_ROOT_PATH ${CROSS_ROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(CMAKE_C_STANDARD_INCLUDE_DIRECTORIES ${CROSS_ROOT}/usr/include/${triplet}) # headers that differ by architecture
set(ENV{PKG_CONFIG_LIBDIR} ${CROSS_ROOT}/usr/lib/${triplet}/pkgconfig)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${CROSS_ROOT})

# Debian's cross C library is in a directory of its own. Programs name it themselves: qemu's way to find it (-L)
# also takes "/" for that directory, in which there is no /tmp.
set(libc /usr/${triplet}/lib)
set(loader_arm64 ld-linux-aarch64.so.1)
set(loader_amd64 ld-linux-x86-64.so.2)
set(CMAKE_EXE_LINKER_FLAGS_INIT "-Wl,--dynamic-linker=${libc}/${loader_${CROSS_ARCH}}")
set(CMAKE_BUILD_RPATH ${libc})
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-${CMAKE_SYSTEM_PROCESSOR}-static;-L;/nonexistent)

# Target hsa_headers: the public headers of the HSA runtime (hsa/hsa.h). Only headers: the runtime
# itself is opened at run time. -Dhsa-runtime64_DIR= names an installed CMake package, -DHSA_INCLUDE_DIR=
# a directory with hsa/hsa.h; otherwise the places where distributions put them are searched.
set(hsa_hints "")
if(hsa-runtime64_DIR)
    # <prefix>/lib[/<arch>]/cmake/hsa-runtime64
    foreach(up ../../.. ../../../..)
        get_filename_component(prefix "${hsa-runtime64_DIR}/${up}" ABSOLUTE)
        list(APPEND hsa_hints ${prefix}/include)
    endforeach()
endif()
if(hsa_hints)
    # Who names a place means it: the headers of another would be a surprise. Asked each time, not
    # only where nothing was found before.
    unset(hsa_named CACHE)
    if(EXISTS ${hsa-runtime64_DIR})
        find_path(hsa_named hsa/hsa.h PATHS ${hsa_hints} NO_DEFAULT_PATH)
    endif()
    if(NOT hsa_named)
        list(JOIN hsa_hints " nor in " places)
        message(FATAL_ERROR "hsa-runtime64_DIR=${hsa-runtime64_DIR}: there is no such directory, or no hsa/hsa.h in ${places}. "
                            "It must be <prefix>/lib/cmake/hsa-runtime64; leave it out (-Uhsa-runtime64_DIR) to have the usual places searched.")
    endif()
    set(HSA_INCLUDE_DIR ${hsa_named} CACHE PATH "the directory of hsa/hsa.h" FORCE)
endif()
find_path(HSA_INCLUDE_DIR hsa/hsa.h PATHS /usr/include /opt/rocm/include)
if(NOT HSA_INCLUDE_DIR)
    message(FATAL_ERROR "hsa/hsa.h was not found. Run `make setup` once, install libhsa-runtime-dev (Debian) or ROCm, "
                        "or pass -DHSA_INCLUDE_DIR=<directory that holds hsa/hsa.h>.")
endif()
message(STATUS "HSA headers: ${HSA_INCLUDE_DIR}")

add_library(hsa_headers INTERFACE)
target_include_directories(hsa_headers SYSTEM INTERFACE ${HSA_INCLUDE_DIR})
target_compile_definitions(hsa_headers INTERFACE LITTLEENDIAN_CPU=1) # hsa.h of ROCm 5 knows this on x86 only

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
    find_path(HSA_INCLUDE_DIR hsa/hsa.h PATHS ${hsa_hints} NO_DEFAULT_PATH)
endif()
find_path(HSA_INCLUDE_DIR hsa/hsa.h PATHS /usr/include /opt/rocm/include)
if(NOT HSA_INCLUDE_DIR)
    message(FATAL_ERROR "hsa/hsa.h was not found. Install libhsa-runtime-dev (Debian) or ROCm, "
                        "or pass -DHSA_INCLUDE_DIR=<directory that holds hsa/hsa.h>.")
endif()
message(STATUS "HSA headers: ${HSA_INCLUDE_DIR}")

add_library(hsa_headers INTERFACE)
target_include_directories(hsa_headers SYSTEM INTERFACE ${HSA_INCLUDE_DIR})
